"""An archive serves under a TorchServe that knows nothing of this repository, started the plain way.

MARINA_TEST_TORCHSERVE may name a folder with another release of TorchServe: `make test-torchserve-0.11`.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from marina.engines import engine_of
from marina.project import Project
from marina.server.hosts.torchserve.java import find_java_home
from marina.server.hosts.torchserve.process import write_config
from marina.server.run.state import Ports
from tests.conftest import ENGINES, ROOT
from tests.end_to_end.conftest import run_marina
from tests.ports import free_ports
from tests.standin import standin_environment

pytestmark = pytest.mark.long
OTHER = os.environ.get("MARINA_TEST_TORCHSERVE")

AddTiny = Callable[..., Path]


@pytest.fixture(scope="module")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the installed packages but not this repository: no .pth file of theirs counts."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    first = [str(Path(OTHER).resolve())] if OTHER else []
    (packages / "packages.pth").write_text("\n".join([*first, *site.getsitepackages()]) + "\n")
    python = folder / "bin" / "python"
    check = "import torch, ts, importlib.util as u; assert not u.find_spec('marina') and not u.find_spec('handlers')"
    subprocess.run([python, "-c", check], cwd=folder, check=True)
    return python


@pytest.fixture(params=[*ENGINES, "neuron", "neuronx"])
def plain_server(
    request: pytest.FixtureRequest, tmp_path: Path, project: Project, add_tiny: AddTiny, plain_python: Path
) -> Iterator[tuple[Path, list[int]]]:
    """TorchServe started in an empty folder with an archive; gives the folder and the ports."""
    add_tiny("m", engine=request.param, shapes={"exact": ["1x32"]})
    host = standin_environment(tmp_path / "host", 1) if engine_of(request.param).cores.exclusive else {}
    packed = run_marina(project, "archive", **host)
    assert packed.returncode == 0, packed.stderr
    folder = tmp_path / "empty"
    temp = folder / "t"
    temp.mkdir(parents=True)
    ports = free_ports(5)
    write_config(ROOT / "config.properties", Ports(*ports), folder / "config.properties")
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(find_java_home()),
        "TMPDIR": str(temp),
        "TEMP": str(temp),
        "LOG_LOCATION": str(folder / "logs"),
        **host,
    }
    torchserve = [str(plain_python), "-m", "ts.model_server"]
    start = [*torchserve, "--start", "--ncs", "--model-store", str(project.model_store)]
    options = ["--ts-config", "config.properties", "--log-config", str(ROOT / "deploy" / "log4j2.xml")]
    with (folder / "console.log").open("w") as console:
        subprocess.run([*start, *options], cwd=folder, env=environment, stdout=console, stderr=console, check=True)
    try:
        deadline = time.monotonic() + 60
        while "Model server started" not in (folder / "console.log").read_text():
            assert time.monotonic() < deadline, (folder / "console.log").read_text()
            time.sleep(0.2)
        yield folder, ports
    finally:
        subprocess.run(
            [*torchserve, "--stop", "--foreground"], cwd=folder, env=environment, capture_output=True, check=False
        )


def test_register_and_ask_over_the_management_and_inference_apis(plain_server: tuple[Path, list[int]]) -> None:
    folder, (inference, management, *_) = plain_server
    # releases before 0.11.1 have no tokens
    tokens = folder / "key_file.json"
    keys = json.loads(tokens.read_text()) if tokens.exists() else {}
    operator, client = (
        {"Authorization": f"Bearer {keys[kind]['key']}"} if keys else {} for kind in ("management", "inference")
    )
    assert bool(keys) != bool(OTHER)
    models = f"http://127.0.0.1:{management}/models"
    registered = requests.post(f"{models}?url=m.mar&synchronous=true", headers=operator, timeout=120)
    assert registered.status_code == 200, registered.text + (folder / "logs" / "model_log.log").read_text()
    url = f"http://127.0.0.1:{inference}/predictions/m"
    answer = requests.post(url, json={"inputs": "change company address"}, headers=client, timeout=60)
    assert {entry["label"] for entry in answer.json()} == {"bad", "fair", "good"}
    # scaling down to none and up again, as an operator does for a worker that is stuck
    for workers in (0, 1):
        scaled = requests.put(
            f"{models}/m?min_worker={workers}&max_worker={workers}&synchronous=true", headers=operator, timeout=120
        )
        assert scaled.status_code == 200, scaled.text
    assert requests.post(url, json={"inputs": "ok"}, headers=client, timeout=60).status_code == 200
    assert sys.executable not in answer.text
