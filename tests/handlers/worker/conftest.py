"""Tiny models compiled once for every engine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from marina.compiler import compile_model
from marina.spec import read_spec
from tests.conftest import ENGINES, make_project, no_progress, write_spec
from tests.shared import Shared

COMPILED = ("sentence-embedding", "text-classification")


class Tiny(NamedTuple):
    """A compiled tiny model and the Hugging Face folder that it came from."""

    artifact: Path
    source: Path


@pytest.fixture(scope="session")
def compiled(shared: Shared, tiny_models: dict[str, Path]) -> dict[tuple[str, str], Tiny]:
    """For each (task, engine) the artifact; not to be changed."""

    def make(folder: Path) -> None:
        project = make_project(folder / "project")
        for task in COMPILED:
            fields = {"task": task, "source": {"path": str(tiny_models[task])}}
            path = write_spec(project, task.replace("-", "_"), **fields, shapes={"exact": ["1x16", "4x16", "4x64"]})
            for engine in ENGINES:
                artifact = compile_model(read_spec(path, {"engine": engine}), project, no_progress).folder
                (folder / f"{task}-{engine}").symlink_to(artifact)

    folder = shared.folder("compiled", make)
    pairs = [(task, engine) for task in COMPILED for engine in ENGINES]
    return {(task, engine): Tiny((folder / f"{task}-{engine}").resolve(), tiny_models[task]) for task, engine in pairs}
