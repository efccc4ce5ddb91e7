"""The rooms of the benchmark need only those below them, and no module needs itself in the end."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import marina.bench

ROOT = Path(marina.bench.__file__).parent
ROOMS = ("load", "report", "server", "sweep", "tables")


def imports() -> dict[str, set[str]]:
    """Of each module of the benchmark the others that it names, in type hints and in functions too."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
    found = {}
    for name, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("marina.bench."):
                module = node.module.removeprefix("marina.bench.")
                named |= {module} if module in paths else {f"{module}.{alias.name}" for alias in node.names}
        assert named <= set(paths), name
        found[name] = named
    return found


def test_rooms_need_only_those_below_them() -> None:
    for name, named in imports().items():
        room = name.split(".")[0]
        if room in ROOMS:
            below = ROOMS[: ROOMS.index(room) + 1]
            assert {one.split(".")[0] for one in named} <= set(below), name


def test_there_is_no_circle() -> None:
    TopologicalSorter(imports()).prepare()
