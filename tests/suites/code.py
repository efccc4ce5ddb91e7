"""What a Python file refers to, read from its syntax tree: imports, names of modules and commands, and paths."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """What one Python file refers to.

    Attributes:
        imports: names of modules; `from a import b` gives both "a" and "a.b".
        constants: all strings but docstrings.
        arguments: the strings that stand in calls, lists and tuples, as the words of command lines do.
        paths: what `folder / "a" / "b"` spells as far as it is constant: "a/b".
        loads_by_name: whether it imports modules whose names it computes.
    """

    imports: frozenset[str]
    constants: frozenset[str]
    arguments: frozenset[str]
    paths: frozenset[str]
    loads_by_name: bool


@functools.cache
def read_code(source: str) -> Code:
    """Read the text of a Python file."""
    nodes = list(ast.walk(ast.parse(source)))
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    imports: set[str] = set()
    constants: set[str] = set()
    arguments: set[str] = set()
    paths: set[str] = set()
    loads_by_name = False
    shorter: set[int] = set()  # paths that are the beginning of another; the walk comes to the whole first
    for node in nodes:
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{ast.unparse(node)}: imports here are absolute"
            imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            constants.add(node.value)
        elif isinstance(node, ast.Call):
            arguments |= set(_strings(node.args))
            loads_by_name |= _name_of(node.func) == "import_module"
        elif isinstance(node, (ast.List, ast.Tuple)):
            arguments |= set(_strings(node.elts))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if id(node) not in shorter:
                paths.add("/".join(_parts(node)))
            shorter.add(id(node.left))
    return Code(frozenset(imports), frozenset(constants), frozenset(arguments), frozenset(paths - {""}), loads_by_name)


def _strings(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.IfExp):
            yield from _strings([node.body, node.orelse])


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _parts(node: ast.expr) -> list[str]:
    """The constant parts of a path from the left, up to the first that is computed."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return []
    left = _parts(node.left)
    right = node.right.value if isinstance(node.right, ast.Constant) else None
    return [*left, right] if isinstance(right, str) and len(left) == _divisions(node.left) else left


def _divisions(node: ast.expr) -> int:
    return 1 + _divisions(node.left) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else 0
