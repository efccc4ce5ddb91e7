"""The image of a project, built once for the tests of a process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from marina.project import Project
from tests.conftest import ENGINE, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import run_marina
from tests.end_to_end.image.containers import BASE, IMAGE
from tests.end_to_end.images import Images


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("deployed"))
    save_tiny_model(made.root / "weights", "text-classification")
    for name in ("intents", "topics"):
        fields = {"source": {"path": "weights"}, "shapes": {"exact": ["1x16", "4x64"]}, "core_groups": "1,1"}
        write_spec(made, name, task="text-classification", engine=ENGINE, **fields)
    done = run_marina(made, "archive")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="session")
def context(project: Project) -> Path:
    folder = project.root / "image"
    done = run_marina(project, "deploy", "image", "intents", "topics", "--output", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def images(context: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    folder = tmp_path_factory.mktemp("images")
    made = Images(folder)
    made.make_base(BASE)
    made.build(context, IMAGE, BASE)
    yield made
    made.buildah("rm", "--all")
    shutil.rmtree(folder, ignore_errors=True)
