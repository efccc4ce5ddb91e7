"""Tests that break a running server. What each counted is printed as a table at the end of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from rich.table import Table

from marina.project import Project
from tests.chaos.load import Counts
from tests.conftest import ROOT, TRAINED, make_project
from tests.end_to_end.conftest import Server, run_marina, serving

Record = Callable[..., None]
NAME = "ava-intent"
COLUMNS = ("what", "sent", "outcomes", "p50 ms", "p99 ms", "also")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chaos" in item.path.parts:
            item.add_marker(pytest.mark.long)


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Record:
    """Adds a row to the table: what was done, the counts of its clients, and other figures."""

    def add(what: str, counts: Counts | None = None, **figures: Any) -> None:
        also = ", ".join(f"{name}: {value}" for name, value in figures.items())
        record_property("chaos", json.dumps({"what": what, **(counts.row() if counts else {}), "also": also}))

    return add


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = [
        json.loads(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "chaos" and getattr(report, "when", "") == "call"
    ]
    if not rows:
        return
    table = Table(title="what the clients got", box=None)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in COLUMNS[1:2] + COLUMNS[3:5] else "left")
    for row in rows:
        table.add_row(*(row.get(column, "") for column in COLUMNS))
    Console(width=180).print(table)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the archive of the intent model, as the README has it but in f32 and with fewer graphs."""
    project = make_project(tmp_path_factory.mktemp("packed"))
    shutil.copytree(TRAINED, project.root / "build" / "training" / NAME)
    fields = yaml.safe_load((ROOT / "models" / f"{NAME}.yaml").read_text())
    fields.pop("examples", None)
    fields |= {"precision": "f32", "shapes": {"exact": ["1x16", "1x128", "8x32", "16x16", "8x128"]}}
    (project.models / f"{NAME}.yaml").write_text(yaml.safe_dump(fields))
    result = run_marina(project, "archive")
    assert result.returncode == 0, result.stderr
    return project


@pytest.fixture(scope="module")
def packed(original: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of it for one file of tests."""
    project = Project(tmp_path_factory.mktemp("chaos") / "project")
    shutil.copytree(original.root, project.root)
    return project


@pytest.fixture(scope="module")
def served(packed: Project) -> Iterator[Server]:
    with serving(packed, NAME) as server:
        yield server


def change(project: Project, **serving_fields: Any) -> None:
    """Pack another version of the model."""
    path = project.models / f"{NAME}.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["serving"] = {**fields.get("serving", {}), **serving_fields}
    path.write_text(yaml.safe_dump(fields))
    result = run_marina(project, "archive", NAME)
    assert result.returncode == 0, result.stderr


def version_served(server: Server) -> str:
    """The default version of the model."""
    status = json.loads(server.marina("status", "--json").stdout)
    return str(next(model["version"] for model in status["models"] if model["name"] == NAME))


def archive_of(project: Project) -> Path:
    return project.model_store / f"{NAME}.mar"
