"""Archives to describe, to deploy and to serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from marina.archive.describe import Archive, describe_archive
from marina.archive.pack import pack
from marina.compiler import compile_model
from marina.spec import read_spec
from tests.conftest import ENGINE, make_project, no_progress, write_spec


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, Path]) -> list[Archive]:
    """Two archives: `intents` and `Search.v2`."""
    project = make_project(tmp_path_factory.mktemp("deploy"))
    found = []
    for name, task in (("intents", "text-classification"), ("Search.v2", "sentence-embedding")):
        fields = {"task": task, "source": {"path": str(tiny_models[task])}, "shapes": {"exact": ["1x16"]}}
        spec = read_spec(write_spec(project, name, engine=ENGINE, **fields))
        artifact = compile_model(spec, project, no_progress).folder
        found.append(describe_archive(pack(spec, artifact, project.model_store).path))
    return found
