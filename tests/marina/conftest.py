"""Archives to describe, to deploy and to serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from marina.archive.describe import Archive, describe_archive
from marina.archive.pack import pack
from marina.compiler import compile_model
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINE, make_project, no_progress, write_spec
from tests.shared import Shared

NAMES = {"intents": "text-classification", "Search.v2": "sentence-embedding"}


@pytest.fixture(scope="session")
def archives(shared: Shared, tiny_models: dict[str, Path]) -> list[Archive]:
    """Two archives: `intents` and `Search.v2`."""

    def make(folder: Path) -> None:
        project = make_project(folder / "project")
        for name, task in NAMES.items():
            fields = {"task": task, "source": {"path": str(tiny_models[task])}, "shapes": {"exact": ["1x16"]}}
            spec = read_spec(write_spec(project, name, engine=ENGINE, **fields))
            pack(spec, compile_model(spec, project, no_progress).folder, project.model_store)

    store = Project(shared.folder("archives", make) / "project").model_store
    return [describe_archive(store / f"{name}.mar") for name in NAMES]
