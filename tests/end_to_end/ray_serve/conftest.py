"""Three models on TorchServe and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from marina.project import Project
from tests.conftest import ENGINE, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.end_to_end.ray_serve.cluster import TASKS, Cluster


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("rayserve"))
    options: dict[str, dict[str, Any]] = {"token-classification": {"id2label": {0: "O", 1: "B-NAME", 2: "I-NAME"}}}
    for name, task in TASKS.items():
        save_tiny_model(made.root / "weights" / name, task, **options.get(task, {}))
        shapes = {"exact": ["1x16", "4x64"]}
        write_spec(made, name, task=task, engine=ENGINE, source={"path": f"weights/{name}"}, shapes=shapes)
    done = run_marina(made, "archive")
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def torchserve(project: Project) -> Iterator[Server]:
    with serving(project) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(project: Project) -> Iterator[Cluster]:
    folder = project.root / "ray"
    done = run_marina(project, "deploy", "ray", *TASKS, "--output", str(folder))
    assert done.returncode == 0, done.stderr
    # pytest's own folders are too deep: a socket's path takes 107 bytes, and Ray adds 64 to 66
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as temp:
        made = Cluster(folder, Path(temp))
        try:
            made.start()
            yield made
        finally:
            made.stop()
