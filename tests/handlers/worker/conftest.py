"""Tiny models compiled once for every engine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from marina.compiler import compile_model
from marina.spec import read_spec
from tests.conftest import ENGINES, make_project, no_progress, write_spec

COMPILED = ("sentence-embedding", "text-classification")


class Tiny(NamedTuple):
    """A compiled tiny model and the Hugging Face folder that it came from."""

    artifact: Path
    source: Path


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, Path]) -> dict[tuple[str, str], Tiny]:
    """For each (task, engine) the artifact; not to be changed."""
    project = make_project(tmp_path_factory.mktemp("compiled"))
    found = {}
    for task in COMPILED:
        source = tiny_models[task]
        fields = {"task": task, "source": {"path": str(source)}, "shapes": {"exact": ["1x16", "4x16", "4x64"]}}
        path = write_spec(project, task.replace("-", "_"), **fields)
        for engine in ENGINES:
            folder = compile_model(read_spec(path, {"engine": engine}), project, no_progress).folder
            found[task, engine] = Tiny(folder, source)
    return found
