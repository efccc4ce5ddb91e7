"""What a container of the image does."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest
import requests

from marina.archive.describe import describe_archive
from marina.client import Client
from marina.deploy.needs import needs_of
from marina.errors import UnauthorizedError
from marina.project import Project
from tests.end_to_end.cgroups import memory_cgroup, needs_memory_cgroup
from tests.end_to_end.image.containers import (
    BEARER,
    HOST,
    IMAGE,
    TOKEN,
    WRITABLE,
    Container,
    kill_workers,
    serving,
    variables,
)
from tests.end_to_end.images import Images, needs_buildah
from tests.ports import free_ports
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, needs_buildah]
MAX_BODY_BYTES = 500_000  # what serving.max_body_bytes is by default


@pytest.fixture(scope="module")
def container(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """For tests that leave it as it was."""
    with serving(images, tmp_path_factory.mktemp("container") / "log") as made:
        yield made


def test_it_answers_with_its_token_only(container: Container) -> None:
    with Client.http(container.url, token=TOKEN) as client:
        assert len(client.predict("intents", ["change company address", "ok"])) == 2
    url = f"{container.url}/predictions/intents"
    for headers in ({}, {"Authorization": f"Bearer {TOKEN.lower()}"}, {"Authorization": TOKEN}):
        refused = requests.post(url, json={"inputs": "ok"}, headers=headers, timeout=30)
        assert (refused.status_code, refused.json()["type"]) == (401, "Unauthorized")
    # as KServe, and a client of the Open Inference Protocol, ask
    v1 = requests.post(
        f"{container.url}/v1/models/intents:predict", json={"instances": ["ok"]}, headers=BEARER, timeout=30
    )
    assert v1.status_code == 200, v1.text
    assert container.ping("/v2/health/ready") == container.ping("/v2/health/live") == 200
    # management is not for others
    assert container.ping("/models") == container.ping("/predictions") == 404


@needs_memory_cgroup
def test_a_flood_of_large_bodies_kills_nothing(images: Images, project: Project, tmp_path: Path) -> None:
    """64 connections with bodies of the largest size, and 64 with larger ones, in the memory that a pod would get."""
    archives = [describe_archive(project.model_store / f"{name}.mar") for name in ("intents", "topics")]
    limit = int(needs_of(archives, "cpu", 2, None, HOST).memory_limit)
    words = json.dumps({"inputs": "word " * 99_900})  # 499,513 bytes

    def send(url: str, size: int) -> int:
        """The status of the answer; 0 if the connection was closed before it."""
        body = words if size < MAX_BODY_BYTES else words + " " * (size - len(words))
        try:
            return requests.post(f"{url}/predictions/intents", data=body, headers=BEARER, timeout=120).status_code
        except requests.ConnectionError:
            return 0

    with memory_cgroup(limit) as cgroup, serving(images, tmp_path / "log", cgroup) as flooded:
        workers = {worker.pid for worker in flooded.workers()}
        with ThreadPoolExecutor(64) as pool:
            allowed = list(pool.map(partial(send, flooded.url), [len(words)] * 256))
            refused = list(pool.map(partial(send, flooded.url), [6_400_000] * 64))
        assert set(allowed) <= {400, 503}  # more characters than a model takes, and more such bodies than memory is for
        assert 400 in allowed
        # nginx refuses them by their headers, and closes the connection on some that still send
        assert set(refused) <= {0, 413}
        assert 413 in refused
        assert flooded.process.poll() is None
        assert {worker.pid for worker in flooded.workers()} == workers
        with Client.http(flooded.url, token=TOKEN) as client:
            assert len(client.predict("intents", ["change company address", "ok"])) == 2


def test_the_urls_of_sagemaker(container: Container) -> None:
    def invoke(**headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{container.url}/invocations"
        return requests.post(url, json={"inputs": "ok"}, headers={**BEARER, **named}, timeout=30)

    assert invoke(X_Amzn_SageMaker_Custom_Attributes="topics").status_code == 200
    assert invoke().json()["type"] == "UnknownModel"
    assert requests.post(f"{container.url}/invocations", data=b"", timeout=30).status_code == 401
    parameters = requests.get(f"{container.url}/execution-parameters", timeout=10).json()
    assert parameters == {"MaxConcurrentTransforms": 2, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 1}


def test_over_grpc(container: Container) -> None:
    address = f"127.0.0.1:{container.ports[1]}"
    with Client.grpc(address, token=TOKEN) as client:
        assert client.predict("intents", "ok")
    with Client.grpc(address, token="wrong") as client, pytest.raises(UnauthorizedError):
        client.predict("intents", "ok")


def test_its_metrics(container: Container) -> None:
    requests.post(f"{container.url}/predictions/intents", json={"inputs": "ok"}, headers=BEARER, timeout=30)
    deadline = time.monotonic() + 20
    while "marina_requests_total{" not in (found := metrics(container)):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


@pytest.mark.skipif(HOST != "torchserve", reason="the host direct counts its refusals itself")
def test_what_nginx_refuses_is_in_the_metrics(container: Container) -> None:
    for headers, body, status in (({}, b"{}", 401), (BEARER, b" " * (MAX_BODY_BYTES + 1), 413)):
        refused = requests.post(f"{container.url}/predictions/intents", data=body, headers=headers, timeout=30)
        assert refused.status_code == status
        line = f'marina_refusals_total{{status="{status}"}} '
        wait_until(partial(has_line, container, line), 20)
    before = count_of(metrics(container), "401")
    with Client.grpc(f"127.0.0.1:{container.ports[1]}", token="wrong") as client, pytest.raises(UnauthorizedError):
        client.predict("intents", "ok")
    wait_until(lambda: count_of(metrics(container), "401") > before, 20)
    page = requests.get(f"http://127.0.0.1:{container.ports[2]}/metrics?name[]=ts_inference_requests_total", timeout=10)
    assert "ts_inference_requests_total" in page.text
    assert "marina_requests_total" not in page.text


def count_of(page: str, status: str) -> int:
    """The refusals with a status, in a page of metrics."""
    return int(re.findall(rf'marina_refusals_total{{status="{status}"}} (\d+)', page)[0])


def has_line(container: Container, start: str) -> bool:
    return start in metrics(container)


def metrics(container: Container) -> str:
    return requests.get(f"http://127.0.0.1:{container.ports[2]}/metrics", timeout=10).text


def test_readiness_looks_at_the_workers(images: Images, tmp_path: Path) -> None:
    with serving(images, tmp_path / "log") as container:
        kill_workers(container)
        deadline = time.monotonic() + 30
        while container.ping() == 200:
            assert time.monotonic() < deadline, "not ready without workers"
        assert container.ping("/v2/health/live") == 200  # TorchServe starts new ones
        container.wait()


def test_no_secret_where_a_worker_can_read(container: Container) -> None:
    main = psutil.Process(container.process.pid)
    family = [one for one in main.children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    assert len(family) > 4, container.log.read_text()
    for process in family:
        assert TOKEN not in str(process.environ())
        assert TOKEN not in str(process.cmdline())
    assert TOKEN not in container.log.read_text()
    root = Path(f"/proc/{main.children()[0].pid}/root")
    for folder in WRITABLE:
        for path in (root / folder.removeprefix("/")).rglob("*"):
            if path.is_file() and path.stat().st_size < 1e6:
                assert TOKEN.encode() not in path.read_bytes()


def test_it_answers_what_it_has_when_it_is_stopped(images: Images, tmp_path: Path) -> None:
    answers: list[int] = []

    def ask(url: str) -> None:
        """Ask until the connection is closed, which must only happen to who was told that it ends."""
        with requests.Session() as session:
            status = 0
            while True:
                try:
                    body = {"inputs": ["change company address"] * 16}
                    answer = session.post(f"{url}/predictions/intents", json=body, headers=BEARER, timeout=60)
                except requests.ConnectionError as error:
                    assert status == 503, error
                    return
                status = answer.status_code
                answers.append(status)

    with serving(images, tmp_path / "log") as container, ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, container.url) for _ in range(8)]
        time.sleep(2)
        container.process.send_signal(signal.SIGTERM)
        assert container.process.wait(60) == 0
        for one in asking:
            one.result()
    assert answers.count(200) > 20
    assert set(answers) == {200, 503}


def test_as_sagemaker_starts_it(images: Images, tmp_path: Path) -> None:
    ports = free_ports(3)
    given = {**variables(ports), "SAGEMAKER_BIND_TO_PORT": str(ports[0]), "MARINA_MODELS": "topics"}
    # it has one argument, another user, and no token, as SageMaker authorizes callers
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, arguments=["serve"], user="0") as process:
        container = Container(process, ports, tmp_path / "log")
        container.wait()
        answer = requests.post(f"{container.url}/invocations", json={"inputs": "ok"}, timeout=30)
        assert answer.status_code == 200, answer.text
        # lines, as Batch Transform sends them
        lines = requests.post(
            f"{container.url}/invocations",
            data=b'{"inputs": "ok"}\n{"inputs": "send it"}\n',
            headers={"Content-Type": "application/jsonlines"},
            timeout=30,
        )
        assert [len(json.loads(line)) for line in lines.text.splitlines()] == [2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there is no token"),
        ({"MARINA_TOKEN": "short"}, "the token must match"),
        ({"MARINA_TOKEN_FILE": "/nowhere"}, "MARINA_TOKEN_FILE=/nowhere cannot be read"),
        ({"MARINA_TOKEN": TOKEN, "MARINA_PORT": "http"}, "MARINA_PORT=http: write a whole number"),
        ({"MARINA_TOKEN": TOKEN, "MARINA_MODELS": "other"}, "/srv/marina/archives has no archive other"),
    ],
)
def test_a_wrong_variable_is_one_line(images: Images, tmp_path: Path, given: dict[str, str], message: str) -> None:
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE) as process:
        assert process.wait(60) == 1
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_mounted_archives_and_a_token_in_a_file(images: Images, project: Project, tmp_path: Path) -> None:
    ports = free_ports(3)
    store, secret = tmp_path / "store", tmp_path / "secret"
    store.mkdir()
    secret.mkdir()
    shutil.copy(project.model_store / "intents.mar", store)
    (secret / "token").write_text(f"{TOKEN}\n")
    for folder in (store, secret):
        os.chown(folder, 10001, 10001)
    given = {**variables(ports), "MARINA_TOKEN_FILE": "/mnt/token"}
    shown = {"/srv/marina/archives": store, "/mnt": secret}
    with images.running(IMAGE, given, tmp_path / "log", WRITABLE, files=shown) as process:
        container = Container(process, ports, tmp_path / "log")
        container.wait()
        with Client.http(container.url, token=TOKEN) as client:
            assert client.predict("intents", "ok")
        refused = requests.post(f"{container.url}/predictions/topics", json={"inputs": "ok"}, timeout=10)
        assert refused.status_code == 401
