"""The parts of Marina's own code that determine an artifact: the modules that compiling imports.

Comments and docstrings are ignored, as are serving modules that compiling imports but that do not affect graphs.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import handlers
import marina
from handlers.worker.engines import engine_module
from handlers.worker.tasks import TASKS
from marina.engines import engine_of

ROOTS = {"handlers": Path(handlers.__file__).parent.parent, "marina": Path(marina.__file__).parent.parent}
ENTRIES = ("marina.compiler.build",)
# Worker placement, clients, jobs in bulk, spec sections (whose values count): none of these changes a graph.
PASSED_BY = ("handlers.worker.placement", "marina.client", "marina.score", "marina.sections")


@cache
def code_of(engine: str, task: str) -> str:
    """Hash of the code that determines the contents of an engine's artifacts for a task."""
    return hash_of(deciding_modules(engine, task), lambda path: path.read_text(encoding="utf-8"))


def deciding_modules(engine: str, task: str) -> dict[str, Path]:
    """The modules that compiling a task for an engine imports, by name."""
    halves = (type(engine_of(engine)).__module__, getattr(engine_module(engine), "__name__", ""))
    # an engine from a separate package
    packaged = {name: Path(str(sys.modules[name].__file__)) for name in halves if _file_of(name) is None}
    modules: dict[str, Path] = {}
    waiting = [*ENTRIES, *halves]
    others = tuple(f".tasks.{Path(other.entry_file).stem}" for name, other in TASKS.items() if name != task)
    while waiting:
        name = waiting.pop()
        path = packaged.get(name) or _file_of(name)
        if name in modules or path is None or name.startswith(PASSED_BY) or name.endswith(others):
            continue
        modules[name] = path
        waiting += _imports(ast.parse(path.read_text(encoding="utf-8")))
    return dict(sorted(modules.items()))


def hash_of(modules: dict[str, Path], read: Callable[[Path], str]) -> str:
    """Hash of the code of modules, without comments, docstrings and field documentation."""
    digest = hashlib.sha256()
    for name, path in modules.items():
        tree = ast.parse(read(path))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                node.body = [one for one in node.body if not _is_text(one)]
        digest.update(f"{name}\0{ast.dump(tree)}\n".encode())
    return digest.hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string: a docstring, or the documentation of a field."""
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports anywhere; `from a import b` yields both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file_of(name: str) -> Path | None:
    """The file of a module of Marina; None for other modules."""
    root = ROOTS.get(name.partition(".")[0])
    if root is None:
        return None
    path = root.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
