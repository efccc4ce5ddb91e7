"""A disk that is full: one line, nothing half-written, and the next run works."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marina.project import Project
from tests.conftest import make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import port_options, run_marina
from tests.ports import free_ports

SIZE_MB = 60


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def project(small_disk: Path) -> Project:
    project = make_project(small_disk / "project")
    save_tiny_model(project.root / "weights", "text-classification")
    shapes = {"exact": ["1x16", "4x64"]}
    write_spec(project, "m", task="text-classification", source={"path": "weights"}, shapes=shapes)
    return project


@pytest.fixture
def fill(project: Project) -> Callable[[int], Path]:
    """Fills the disk up to a number of kilobytes, with a file to be deleted."""

    def fill(left_kb: int) -> Path:
        path = project.root.parent / "filling"
        with path.open("wb") as file:
            status = os.statvfs(project.root)
            file.write(b"\0" * max(0, status.f_bavail * status.f_frsize - left_kb * 1024))
        return path

    return fill


def halves(project: Project) -> list[Path]:
    """Temporary files and folders that were left behind."""
    return [path for path in project.root.rglob("*") if path.name.endswith((".partial", ".tmp"))]


@pytest.mark.parametrize("left_kb", [0, 100])
def test_compile_and_archive(project: Project, fill: Callable[[int], Path], left_kb: int) -> None:
    filling = fill(left_kb)
    result = run_marina(project, "archive")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.splitlines()
    assert "no space left on" in line.lower()
    assert halves(project) == []
    assert list(project.model_store.glob("*.mar")) == []
    filling.unlink()
    assert run_marina(project, "archive").returncode == 0


def test_archive_alone(project: Project, fill: Callable[[int], Path]) -> None:
    assert run_marina(project, "compile").returncode == 0
    filling = fill(40)
    result = run_marina(project, "archive")
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert halves(project) == []
    assert list(project.model_store.glob("*.mar")) == []
    filling.unlink()
    assert run_marina(project, "archive").returncode == 0


@pytest.mark.parametrize("left_kb", [0, 60])
def test_serve(project: Project, fill: Callable[[int], Path], left_kb: int) -> None:
    assert run_marina(project, "archive").returncode == 0
    filling = fill(left_kb)
    ports = port_options(free_ports(5))
    try:
        result = run_marina(project, "serve", *ports)
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        assert len(result.stderr.splitlines()) == 1
        filling.unlink()
        result = run_marina(project, "serve", *ports)
        assert result.returncode == 0, result.stderr
        assert run_marina(project, "predict", "m", "ok").returncode == 0
        filling = fill(0)
        # a full disk takes nothing from a server that runs
        assert run_marina(project, "predict", "m", "ok").returncode == 0
        bench = run_marina(project, "bench", "run", "m", "--seconds", "1", "--warm-up", "0")
        assert bench.returncode == 1
        assert "No space left on device" in bench.stderr
        assert "Traceback" not in bench.stderr
        filling.unlink()
        bench = run_marina(project, "bench", "run", "m", "--seconds", "1", "--warm-up", "0")
        assert bench.returncode == 0, bench.stderr
        status = json.loads(run_marina(project, "status", "--json").stdout)
        assert status["models"][0]["ready"] == 1
    finally:
        filling.unlink(missing_ok=True)
        run_marina(project, "stop")
