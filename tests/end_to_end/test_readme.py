"""Runs the shell blocks of the README and of docs/torchserve.md, in a copy of the repository and on free ports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from marina.server.config import free_ports
from tests.conftest import ROOT
from tests.end_to_end.conftest import port_options

pytestmark = pytest.mark.long

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEFAULT_PORTS = ("8080", "8081", "8082", "7070", "7071")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the working tree, with the virtual environment and the trained model that are there."""
    # else make would install the copy's own code into the environment
    assert subprocess.run(["make", "-q", "setup"], cwd=ROOT, check=False).returncode == 0, "run make setup first"
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns(".git", ".venv*", "build", "*.mar", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(ROOT / "build" / "training", folder / "build" / "training")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports(5)


@pytest.fixture(scope="module", autouse=True)
def stopped(copy: Path) -> Iterator[None]:
    yield
    subprocess.run([".venv/bin/marina", "stop"], cwd=copy, capture_output=True, check=False)


def run_blocks(document: str, copy: Path, ports: list[int], **environment: str) -> str:
    """Run a document's blocks in one shell that ends at the first failure; returns what they print."""
    script = "\n".join(BLOCK.findall((ROOT / document).read_text()))
    assert script
    for default, port in zip(DEFAULT_PORTS, ports):
        script = script.replace(f"localhost:{default}", f"localhost:{port}")
    script = script.replace("make serve", f"make serve SERVE_FLAGS='{' '.join(port_options(ports))}'")
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("curl -s", "curl -sS --fail-with-body")],
        cwd=copy,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_readme_does_what_it_says(copy: Path, ports: list[int]) -> None:
    output = run_blocks("README.md", copy, ports)
    assert re.search(r"^change_company_address +0\.[5-9]", output, re.MULTILINE)
    assert '[{"label":"change_company_address","score":0.' in output
    assert '[{"label":"invoice_copy","score":0.' in output
    assert "(384 numbers)" in output
    assert output.endswith("stopped\n")


def test_the_plain_way_does_what_it_says(copy: Path, ports: list[int], tmp_path: Path) -> None:
    subprocess.run(["make", "archive"], cwd=copy, capture_output=True, check=True)
    config = copy / "config.properties"
    text = config.read_text()
    for default, port in zip(DEFAULT_PORTS, ports):
        text = re.sub(rf"\b{default}\b", str(port), text)
    config.write_text(text)
    temp = tmp_path / "t"
    temp.mkdir()
    folders = {"TMPDIR": str(temp), "TEMP": str(temp)}
    try:
        output = run_blocks("docs/torchserve.md", copy, ports, **folders)
    finally:
        stop = [".venv/bin/torchserve", "--stop", "--foreground"]
        subprocess.run(stop, cwd=copy, env={**os.environ, **folders}, capture_output=True, check=False)
    assert "registered with 1 initial workers" in output
    assert '"status": "READY"' in output
    answer = re.search(r'^\[\{"label".*\}\]', output, re.MULTILINE)
    assert answer
    assert json.loads(answer[0])[0]["label"] == "change_company_address"
    assert "{'label': 'download_software', 'score': 0." in output  # over gRPC
    assert "TorchServe has stopped." in output
