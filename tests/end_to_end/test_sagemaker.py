"""What `marina deploy sagemaker` writes, served by SageMaker's own program on the real TorchServe.

MARINA_TEST_TORCHSERVE may name a folder with another release of TorchServe: `make test-torchserve-0.11`.
"""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import requests

from marina.deploy.sagemaker import deploy_sagemaker
from marina.deploy.source import read_archives
from marina.project import Project
from marina.server.hosts.torchserve.java import find_java_home
from tests.conftest import ENGINE, ROOT
from tests.end_to_end.conftest import run_marina
from tests.ports import free_ports

pytestmark = pytest.mark.long
OTHER = os.environ.get("MARINA_TEST_TORCHSERVE")
TOOLKIT = ROOT / "build" / "sagemaker-toolkit"
START_S = 240
AddTiny = Callable[..., Path]


@contextmanager
def container(base: Path, **variables: str) -> Iterator[str]:
    """The container's program on base/model; gives its URL."""
    temp = base / "t"
    temp.mkdir()
    (port, grpc, management, metrics) = free_ports(4)
    first = [str(Path(OTHER).resolve())] if OTHER else []
    packages = [*first, str(TOOLKIT), *site.getsitepackages()]
    # pip finds the packages of code/requirements.txt installed
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(packages),
        "JAVA_HOME": str(find_java_home()),
        "TMPDIR": str(temp),
        "TEMP": str(temp),
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        # ports that an image has to itself
        "TS_METRICS_ADDRESS": f"http://127.0.0.1:{metrics}",
        "TS_GRPC_INFERENCE_PORT": str(grpc),
        "TS_GRPC_MANAGEMENT_PORT": str(management),
        "MARINA_LEASES": os.environ["MARINA_LEASES"],
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        **variables,
    }
    log = base / "console.log"
    with log.open("w") as console:
        program = Path(__file__).parent / "sagemaker_container.py"
        process = subprocess.Popen(
            [sys.executable, str(program)], cwd=base, env=environment, stdout=console, stderr=console
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_S
        while not answers(url):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.3)
        yield url
        process.terminate()  # as SageMaker ends a container
        process.wait(30)
    finally:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                if str(base) in " ".join(child.cmdline()):
                    child.kill()
        process.kill()


def answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/ping", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def invoke(url: str, document: object, media_type: str = "application/json") -> requests.Response:
    """Ask once workers are READY: until then TorchServe answers 503, and its /ping does not say so."""
    body = document if isinstance(document, str) else json.dumps(document)
    headers = {"Content-Type": media_type}
    for _ in range(240):
        answer = requests.post(f"{url}/invocations", data=body.encode(), headers=headers, timeout=60)
        if answer.status_code != 503:
            return answer
        time.sleep(0.5)
    return answer


@pytest.fixture
def packed(project: Project, add_tiny: AddTiny) -> Project:
    add_tiny("m", engine=ENGINE, shapes={"exact": ["1x32", "4x32"]}, serving={"server_timing": True})
    done = run_marina(project, "archive")
    assert done.returncode == 0, done.stderr
    return project


@pytest.mark.parametrize("functions", [False, True], ids=["archive", "functions"])
def test_the_container_answers_as_marina_does(packed: Project, tmp_path: Path, functions: bool) -> None:
    archives = read_archives(packed, ["m"])
    deploy_sagemaker(packed, archives, tmp_path / "out", functions, None, aws_image=True)
    base = tmp_path / "ml"
    with tarfile.open(tmp_path / "out" / "m" / "model.tar.gz") as file:
        file.extractall(base / "model", filter="data")
    expected = run_marina(packed, "score", "m", "--input", str(texts(tmp_path)), "--output", str(tmp_path / "a.jsonl"))
    assert expected.returncode == 0, expected.stderr
    with container(base) as url:
        one = invoke(url, {"inputs": ["change company address", "ok thanks"]})
        assert one.status_code == 200, one.text
        labels = [answer[0]["label"] for answer in one.json()]
        rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
        assert labels == [row["label"] for row in rows]
        # JSON Lines, as Batch Transform sends them: a line for each, in order, and one that is wrong alone
        lines = invoke(url, '{"inputs": "ok"}\n{"inputs": 1}\n{"inputs": "send it"}\n', "application/jsonlines")
        statuses = [json.loads(line) for line in lines.text.splitlines()]
        assert [isinstance(line, list) for line in statuses] == [True, False, True]
        wrong = invoke(url, {"nothing": 1})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "InvalidBody")
        assert "Traceback" not in wrong.text
        with ThreadPoolExecutor(32) as pool:
            many = list(pool.map(lambda _: invoke(url, {"inputs": "ok thanks"}), range(200)))
        assert {answer.status_code for answer in many} == {200}
        assert (max(batch_of(answer) for answer in many) == 1) == functions


def test_a_multi_model_endpoint(packed: Project, tmp_path: Path) -> None:
    """SageMaker registers models by JSON, and calls them by names of its own."""
    deploy_sagemaker(packed, read_archives(packed, ["m"]), tmp_path / "out", False, None, aws_image=True)
    for name in ("closed", "open"):
        with tarfile.open(tmp_path / "out" / "m" / "model.tar.gz") as file:
            file.extractall(tmp_path / name / "models" / "a1b2" / "model", filter="data")

    def load(url: str, name: str) -> requests.Response:
        folder = tmp_path / name / "models" / "a1b2" / "model"
        return requests.post(f"{url}/models", json={"model_name": "a1b2", "url": str(folder)}, timeout=START_S)

    # the toolkit's configuration lacks a line break after enable_model_api, which TorchServe 0.11.0 does not read
    with container(tmp_path / "closed", SAGEMAKER_MULTI_MODEL="true") as url:
        assert load(url, "closed").status_code == (200 if OTHER else 405)
    with container(tmp_path / "open", SAGEMAKER_MULTI_MODEL="true", TS_ENABLE_MODEL_API="true") as url:
        assert load(url, "open").status_code == 200
        assert load(url, "open").status_code == 409
        assert [model["modelName"] for model in requests.get(f"{url}/models", timeout=30).json()["models"]] == ["a1b2"]

        def ask(_: int) -> requests.Response:
            return requests.post(f"{url}/models/a1b2/invoke", json={"inputs": "ok thanks"}, timeout=60)

        assert ask(0).json()[0]["label"]
        with ThreadPoolExecutor(16) as pool:
            many = list(pool.map(ask, range(100)))
        assert {answer.status_code for answer in many} == {200}
        # TorchServe ignores the archive's maxBatchDelay when models are registered by JSON
        assert max(batch_of(answer) for answer in many) <= 2
        assert requests.delete(f"{url}/models/a1b2", timeout=60).status_code == 200
        assert ask(0).status_code == 404


def batch_of(answer: requests.Response) -> int:
    """How many requests were in the batch of an answer."""
    return int(re.findall(r'batch;desc="(\d+)"', answer.headers["server-timing"])[0])


def texts(folder: Path) -> Path:
    path = folder / "texts.jsonl"
    path.write_text('{"text": "change company address"}\n{"text": "ok thanks"}\n')
    return path


def test_equal_archives_give_equal_bytes(packed: Project, tmp_path: Path) -> None:
    archives = read_archives(packed, ["m"])
    for functions in (False, True):
        made = []
        for number in range(2):
            folder = tmp_path / f"{functions}{number}"
            deploy_sagemaker(packed, archives, folder, functions, None, aws_image=True)
            made.append({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
            time.sleep(1.1)  # a time of whole seconds would show
        assert made[0] == made[1]
