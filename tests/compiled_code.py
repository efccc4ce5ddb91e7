"""The code that decides what artifacts contain, as digests beside the versions that an artifact's key has.

`tests/marina/compiler/test_versions.py` fails when such code changes. Then decide: raise the version that the failure
names, so that everything is compiled again, or keep it, because graphs, answers and files stay as they were. Record the
decision:

    python -m tests.compiled_code              # versions were raised
    python -m tests.compiled_code --unchanged  # graphs, answers and files are as before

Comments, docstrings, the texts of errors and of progress, and modules that compiling imports for other things decide
nothing, and do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from handlers.worker.engines import ENGINES
from handlers.worker.tasks import TASKS
from marina.compiler.cache import COMPILER_VERSION, TASK_VERSIONS
from marina.engines import engine_of

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_suffix(".json")
ENTRY_MODULE = "marina.compiler.build"
# Worker placement, errors, clients, jobs in bulk, archives, sections of specs (whose values count), output: none of
# these changes a graph.
IGNORED_MODULES = (
    "handlers.worker.placement",
    "handlers.worker.errors",
    *(f"marina.{name}" for name in ("archive", "client", "console", "errors", "fields", "files", "findings", "score")),
    "marina.spec.sections",
)
PROGRESS_FUNCTIONS = ("progress", "say")  # functions whose arguments are only shown

Modules = Mapping[str, Path]  # files of modules by their names


class Versioned(NamedTuple):
    """Code with a version: the number, where it is written, and the modules."""

    version: int
    place: str
    modules: Modules


def versioned_code() -> dict[str, Versioned]:
    """The code of the compiler, of each task and of each engine: what all compiling imports, and what only they do."""
    imported = {(engine, task): deciding_modules(engine, task) for engine in ENGINES for task in TASKS}
    common = _in_all([*imported.values()])
    code = {"compiler": Versioned(COMPILER_VERSION, "marina/compiler/cache.py: COMPILER_VERSION", common)}
    for task in TASKS:
        modules = _in_all([imported[engine, task] for engine in ENGINES])
        place = "marina/compiler/cache.py: TASK_VERSIONS"
        code[f"task {task}"] = Versioned(TASK_VERSIONS.get(task, 1), place, _without(modules, common))
    for name in ENGINES:
        modules = _in_all([imported[name, task] for task in TASKS])
        place = f"marina/engines/{name}.py: version"
        code[f"engine {name}"] = Versioned(engine_of(name).version, place, _without(modules, common))
    return code


def _in_all(imports: Sequence[Modules]) -> Modules:
    return {name: path for name, path in imports[0].items() if all(name in modules for modules in imports)}


def _without(modules: Modules, others: Modules) -> Modules:
    return {name: path for name, path in modules.items() if name not in others}


def deciding_modules(engine: str, task: str) -> Modules:
    """The modules that compiling a task for an engine imports, by name."""
    modules: dict[str, Path] = {}
    pending = [ENTRY_MODULE, f"marina.engines.{engine}", f"handlers.worker.engines.{engine}"]
    other_tasks = tuple(f".tasks.{Path(each.entry_file).stem}" for name, each in TASKS.items() if name != task)
    while pending:
        name = pending.pop()
        path = _file_of(name)
        if name in modules or path is None or name.startswith(IGNORED_MODULES) or name.endswith(other_tasks):
            continue
        modules[name] = path
        pending += _imports(path)
    return dict(sorted(modules.items()))


def read(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


def digest_of(modules: Modules, read: Callable[[Path], str] = read) -> str:
    """A digest of the code of modules, without comments, documentation, and texts of errors and progress."""
    digest = hashlib.sha256()
    for name, path in modules.items():
        tree = ast.parse(read(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body = [statement for statement in node.body if not _is_text(statement)]
            elif isinstance(node, ast.Call) and _only_reports(node):
                node.args, node.keywords = [], []
        digest.update(f"{name}\0{_dump(tree)}\n".encode())
    return digest.hexdigest()[:16]


def _dump(node: object) -> str:
    """A syntax tree as text; `ast.dump` writes the fields that later releases of Python have, too."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if isinstance(node, ast.JoinedStr):  # Python 3.12 has empty parts
        node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
    if isinstance(node, ast.AST):
        fields = [f"{name}={_dump(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(fields)})"
    return repr(node)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string: a docstring, or the documentation of a field."""
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _only_reports(call: ast.Call) -> bool:
    """Whether a call makes an error, or shows progress."""
    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
    return name.endswith("Error") or name in PROGRESS_FUNCTIONS


@cache
def _imports(path: Path) -> list[str]:
    """The modules that a file imports anywhere; `from a import b` means both `a` and `a.b`."""
    names = []
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


@cache
def _file_of(name: str) -> Path | None:
    """The file of a module of Marina; None for other modules."""
    if name.partition(".")[0] not in ("handlers", "marina"):
        return None
    path = ROOT.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def main(arguments: list[str]) -> int:
    """Record the digests; 1 if code changed without a raised version, and nothing says that results are as before."""
    recorded, code = json.loads(read(RECORD)) if RECORD.exists() else {}, versioned_code()
    document = {name: {"version": each.version, "digest": digest_of(each.modules)} for name, each in code.items()}
    same_version = [
        f"{name} ({code[name].place})"
        for name, entry in document.items()
        if name in recorded and entry != recorded[name] and entry["version"] == recorded[name]["version"]
    ]
    if same_version and arguments != ["--unchanged"]:
        print("raise the version, or say --unchanged:", *same_version, sep="\n  ")
        return 1
    RECORD.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
