"""Runs the shell blocks of the README and of guides, in a copy of the repository and on free ports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import port_options
from tests.ports import free_ports
from tests.standin import events, standin_environment

pytestmark = pytest.mark.long

BLOCK = r"^```{}\n(.*?)^```"
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


def run_blocks(document: str, copy: Path, ports: list[int], language: str = "sh", **environment: str) -> str:
    """Run a document's blocks in one shell that ends at the first failure; returns what they print.

    Blocks of the language bash are for an instance with Neuron.
    """
    found = re.findall(BLOCK.format(language), (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    script = "\n".join(found)
    assert script
    for default, port in zip(DEFAULT_PORTS, ports, strict=True):
        script = script.replace(f"localhost:{default}", f"localhost:{port}")
    script = script.replace("make serve", f"make serve SERVE_FLAGS='{' '.join(port_options(ports))}'")
    script = re.sub(
        r"^((?:\.venv/bin/)?marina serve .*)", rf"\1 {' '.join(port_options(ports))}", script, flags=re.MULTILINE
    )
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("curl -s", "curl -sS --fail-with-body")],
        cwd=copy,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
        # side by side tests have one core each, and pages have those of the machine
        preexec_fn=lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)),
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_readme_does_what_it_says(copy: Path, ports: list[int]) -> None:
    output = run_blocks("README.md", copy, ports)
    assert re.search(r"^change_company_address +0\.[5-9]", output, re.MULTILINE)
    assert '[{"label":"change_company_address","score":0.' in output
    assert '[{"label":"invoice_copy","score":0.' in output
    assert "(384 numbers)" in output
    assert "\nstopped\n" in output
    assert re.search(r"^build/answers\.csv written: 288 rows, 288 answered, 0 errors, ", output, re.MULTILINE)


@pytest.fixture
def plain(copy: Path, ports: list[int], tmp_path: Path) -> Iterator[dict[str, str]]:
    """A configuration with free ports, and the folders of a server that is started by hand; stops it."""
    config = copy / "config.properties"
    before = text = config.read_text()
    for default, port in zip(DEFAULT_PORTS, ports, strict=True):
        text = re.sub(rf"\b{default}\b", str(port), text)
    config.write_text(text)
    temp = tmp_path / "t"
    temp.mkdir()
    folders = {"TMPDIR": str(temp), "TEMP": str(temp)}
    yield folders
    stop = [".venv/bin/torchserve", "--stop", "--foreground"]
    subprocess.run(stop, cwd=copy, env={**os.environ, **folders}, capture_output=True, check=False)
    config.write_text(before)


@pytest.fixture
def instance(copy: Path, tmp_path: Path) -> Path:
    """A pretended instance with 4 cores, and the virtual environment of its stack; gives the folder of its state."""
    environment = copy / ".venv-inf2"
    if not environment.exists():
        environment.symlink_to(ROOT / ".venv")
    return tmp_path / "host"


def test_the_guide_to_neuron_does_what_it_says(copy: Path, ports: list[int], instance: Path) -> None:
    output = run_blocks("docs/guides/neuron.md", copy, ports, **standin_environment(instance, 4))
    assert "NeuronCores" in output
    assert "compiler arguments: --target inf2" in output
    assert "(384 numbers)" in output
    assert output.endswith("stopped\n")


def test_groups_by_hand_do_what_the_page_says(
    copy: Path, ports: list[int], plain: dict[str, str], instance: Path
) -> None:
    environment = {**plain, **standin_environment(instance, 4)}
    output = run_blocks("docs/guides/torchserve.md", copy, ports, "bash", **environment)
    assert len(re.findall(r"^\[+-?0\.", output, re.MULTILINE)) == 2, output
    cores = [tuple(event["cores"]) for event in events(instance)]
    assert set(cores) == {(0,), (1,), (2,), (3,), (0, 1, 2, 3)}


def test_the_plain_way_does_what_it_says(copy: Path, ports: list[int], plain: dict[str, str]) -> None:
    subprocess.run(["make", "archive"], cwd=copy, capture_output=True, check=True)
    output = run_blocks("docs/guides/torchserve.md", copy, ports, **plain)
    assert "registered with 1 initial workers" in output
    assert '"status": "READY"' in output
    answer = re.search(r'^\[\{"label".*\}\]', output, re.MULTILINE)
    assert answer
    assert json.loads(answer[0])[0]["label"] == "change_company_address"
    assert "{'label': 'download_software', 'score': 0." in output  # over gRPC
    assert "TorchServe has stopped." in output


def test_the_recipes_do_what_they_say(copy: Path, ports: list[int]) -> None:
    output = run_blocks("docs/recipes.md", copy, ports)
    assert output.count("READY") >= 6
    assert re.search(r"^\[0\.[5-9]\d*,0\.[0-4]\d*\]", output, re.MULTILINE)  # cosines: the developer, not the nurse
    assert "2 of 2 READY" in output
    assert "model_name,workers_per_model" in output
    assert output.endswith("stopped\n")


def test_the_tutorial_does_what_it_says(copy: Path, ports: list[int]) -> None:
    output = run_blocks("docs/guides/tutorial.md", copy, ports)
    assert re.search(r"^change_company_address +0\.[5-9]", output, re.MULTILINE)
    assert output.count("report.html") >= 2
    assert (copy / "build/support-desk/build/plan/plan.svg").is_file()
    assert (copy / "build/support-desk/build/deploy/README.md").is_file()
