"""Marina as a wheel: in an empty environment, and in a project far from the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import port_options
from tests.ports import free_ports

pytestmark = pytest.mark.long

MOST_MEGABYTES = 30
PROGRAM = ROOT / "tests" / "typing" / "client.py"
CLIENT = """
import json, sys
from marina import Client, read_archive
artifact = read_archive(sys.argv[1])
heavy = {"numpy", "torch", "transformers", "matplotlib", "pydantic", "yaml"} & set(sys.modules)
labels = artifact.signature.heads["logits"].labels
print(json.dumps({"task": artifact.task, "labels": labels, "heavy": list(heavy)}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution of a copy, so that nothing beside these files counts."""
    copy = tmp_path_factory.mktemp("source") / "marina"
    for name in ("handlers", "marina", "deploy"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "config.properties"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", copy.parent, copy)
    run(sys.executable, "-m", "twine", "check", "--strict", *copy.parent.glob("marina_serving-*"))
    (built,) = copy.parent.glob("marina_serving-*.whl")
    return built


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    result = attempt(*command, **options)
    assert result.returncode == 0, result.stderr + result.stdout
    return result


def attempt(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False, **options)


@pytest.fixture(scope="module")
def archive(wheel: Path, tiny_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a tiny classifier, made by the wheel's code in a new project."""
    folder = tmp_path_factory.mktemp("far")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "installed", wheel)
    environment = {**os.environ, "PYTHONPATH": str(folder / "installed")}
    project = folder / "project"
    marina = (sys.executable, "-m", "marina")
    where = run(sys.executable, "-c", "import marina, handlers; print(handlers.__file__)", env=environment, cwd=folder)
    assert where.stdout.startswith(str(folder / "installed" / "marina"))
    run(*marina, "new", "project", project, env=environment, cwd=folder)
    origin = tiny_models["text-classification"]
    run(*marina, "new", "model", "mine", "--from", origin, env=environment, cwd=project)
    run(*marina, "archive", "mine", env=environment, cwd=project)
    return project / "model_store" / "mine.mar"


def test_a_client_needs_little_in_an_empty_environment(wheel: Path, archive: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    before = {path.name for path in site.iterdir()}
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    added = [path for path in site.iterdir() if path.name not in before]
    assert "marina" in {path.name for path in added}
    assert "handlers" not in {path.name for path in added}
    files = [file for path in added for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_MEGABYTES * 1e6
    read = json.loads(run(python, "-c", CLIENT, archive, cwd=tmp_path).stdout)
    assert read == {"task": "text-classification", "labels": ["bad", "fair", "good"], "heavy": []}
    # its types are known to programs that use it
    program = shutil.copy(PROGRAM, tmp_path)
    run(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, program, cwd=tmp_path)
    refused = attempt(tmp_path / "venv" / "bin" / "marina", "status", cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "is not installed; install Marina with its extra [all]" in refused.stderr


def test_a_project_anywhere_serves(archive: Path) -> None:
    project = archive.parent.parent
    environment = {**os.environ, "PYTHONPATH": str(project.parent / "installed")}
    marina = (sys.executable, "-m", "marina")
    try:
        run(*marina, "serve", "mine", *port_options(free_ports(5)), env=environment, cwd=project)
        answer = run(*marina, "predict", "mine", "hello", "--json", env=environment, cwd=project)
        assert {"bad", "fair", "good"} >= {one["label"] for one in json.loads(answer.stdout)[:1]}
    finally:
        run(*marina, "stop", env=environment, cwd=project)


def test_what_it_writes_for_targets_is_whole(archive: Path) -> None:
    """The same files as from the repository: all of them are in the wheel."""
    project = archive.parent.parent
    installed = {**os.environ, "PYTHONPATH": str(project.parent / "installed")}
    repository = {**os.environ, "PYTHONPATH": str(ROOT)}
    for target in ("sagemaker", "image", "kubernetes", "ecs", "ray"):
        found = []
        for number, environment in enumerate((installed, repository)):
            folder = project / "out" / f"{target}-{number}"
            command = (sys.executable, "-m", "marina", "deploy", target, "mine", "--output", folder)
            run(*command, env=environment, cwd=project)
            found.append({str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()})
        assert found[0] == found[1], target
