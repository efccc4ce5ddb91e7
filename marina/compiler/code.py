"""The parts of Marina's own code that determine an artifact: the modules that compiling imports.

Code that changes neither a graph nor an answer is ignored: comments, docstrings, the texts of errors and of progress,
and modules that compiling imports for other things.
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
ENTRY_MODULES = ("marina.compiler.build",)
# Worker placement, errors, clients, jobs in bulk, archives, sections of specs (whose values count), output: none of
# these changes a graph.
IGNORED_MODULES = (
    "handlers.worker.placement",
    "handlers.worker.errors",
    *(f"marina.{name}" for name in ("archive", "client", "console", "errors", "fields", "files", "findings", "score")),
    "marina.spec.sections",
)
PROGRESS_FUNCTIONS = ("progress", "say")  # functions whose arguments are only shown


@cache
def code_of(engine: str, task: str) -> str:
    """Hash of the code that determines the contents of an engine's artifacts for a task."""
    return hash_of(deciding_modules(engine, task), lambda path: path.read_text(encoding="utf-8"))


def deciding_modules(engine: str, task: str) -> dict[str, Path]:
    """The modules that compiling a task for an engine imports, by name."""
    engine_modules = (type(engine_of(engine)).__module__, getattr(engine_module(engine), "__name__", ""))
    # an engine from a separate package
    packaged = {name: Path(str(sys.modules[name].__file__)) for name in engine_modules if _file_of(name) is None}
    modules: dict[str, Path] = {}
    pending = [*ENTRY_MODULES, *engine_modules]
    other_tasks = tuple(
        f".tasks.{Path(task_definition.entry_file).stem}" for name, task_definition in TASKS.items() if name != task
    )
    while pending:
        name = pending.pop()
        path = packaged.get(name) or _file_of(name)
        if name in modules or path is None or name.startswith(IGNORED_MODULES) or name.endswith(other_tasks):
            continue
        modules[name] = path
        pending += _imports(ast.parse(path.read_text(encoding="utf-8")))
    return dict(sorted(modules.items()))


def hash_of(modules: dict[str, Path], read: Callable[[Path], str]) -> str:
    """Hash of the code of modules, without comments, documentation, and texts of errors and progress."""
    digest = hashlib.sha256()
    for name, path in modules.items():
        tree = ast.parse(read(path))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                node.body = [statement for statement in node.body if not _is_text(statement)]
            elif isinstance(node, ast.Call) and _only_reports(node):
                node.args, node.keywords = [], []
        digest.update(f"{name}\0{ast.dump(tree)}\n".encode())
    return digest.hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string: a docstring, or the documentation of a field."""
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _only_reports(call: ast.Call) -> bool:
    """Whether a call makes an error, or shows progress."""
    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
    return name.endswith("Error") or name in PROGRESS_FUNCTIONS


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
