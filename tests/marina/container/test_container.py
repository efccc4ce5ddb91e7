"""A container's variables and its proxy; images are in tests/end_to_end/image."""

from __future__ import annotations

import re
import select
import shutil
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from marina.archive.describe import Archive
from marina.container import check
from marina.container.__main__ import body_bytes, offer_archives
from marina.container.probes import Health, probes
from marina.container.proxy import configuration, nginx
from marina.container.refusals import refusals
from marina.container.settings import ContainerSettings, port_of, read_settings
from marina.errors import DeployError, ServerError
from marina.project import Project
from marina.server.hosts.torchserve.memory import (
    DIRECT_MIB,
    HEAP_MIB,
    LARGE_BODIES,
    MEDIUM_BODIES,
    REQUESTS,
    large_bodies,
    with_java_memory,
)
from marina.server.management.api import ModelStatus
from marina.server.run.state import Ports
from tests.ports import free_ports
from tests.waiting import wait_until

TOKEN = "0123456789abcdef"


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_settings_from_the_environment(tmp_path: Path) -> None:
    settings = read_settings({"MARINA_TOKEN": TOKEN, "MARINA_MODELS": "a b", "MARINA_PORT": "9000"}, [])
    assert settings.trusted is None
    assert read_settings({"MARINA_OPEN": "true", "MARINA_TRUSTED": "/etc/sums"}, []).trusted == "/etc/sums"
    assert (settings.port, settings.grpc_port, settings.tokens, settings.models) == (9000, 7070, (TOKEN,), ("a", "b"))
    assert ContainerSettings.from_json(settings.as_json()) == settings
    (tmp_path / "token").write_text(f"{TOKEN}\n{TOKEN[::-1]}\n")
    assert read_settings({"MARINA_TOKEN_FILE": str(tmp_path / "token")}, []).tokens == (TOKEN, TOKEN[::-1])
    assert read_settings({"MARINA_OPEN": "true"}, []).tokens == ()
    for java, host in (({}, "direct"), ({"JAVA_HOME": "/opt/java"}, "torchserve")):
        assert read_settings({"MARINA_OPEN": "true", "MARINA_HOST": "", **java}, []).host == host
    # SageMaker authorizes callers itself, and names the port
    assert read_settings({"SAGEMAKER_BIND_TO_PORT": "8888", "MARINA_TOKEN": TOKEN}, ["serve"]).tokens == ()
    assert port_of({"SAGEMAKER_BIND_TO_PORT": "8888"}) == 8888


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, [], "there is no token"),
        ({"MARINA_TOKEN": "a b c d e f g h i j k"}, [], "the token must match"),
        ({"MARINA_TOKEN": f'{TOKEN}" 1; default 1; "'}, [], "the token must match"),
        ({"MARINA_OPEN": "yes"}, [], "MARINA_OPEN=yes"),
        ({"MARINA_OPEN": "true", "MARINA_HOST": "jetty"}, [], "MARINA_HOST=jetty"),
        ({"MARINA_OPEN": "true", "MARINA_PORT": "0"}, [], "MARINA_PORT=0"),
        ({"MARINA_OPEN": "true", "MARINA_DRAIN_S": "-1"}, [], "MARINA_DRAIN_S=-1"),
        ({"MARINA_OPEN": "true"}, ["train"], "unknown arguments train"),
    ],
)
def test_what_has_no_sense(variables: dict[str, str], arguments: list[str], message: str) -> None:
    with pytest.raises(DeployError, match=message):
        read_settings(variables, arguments)


def test_the_configuration_of_nginx(archives: list[Archive], tmp_path: Path) -> None:
    settings = read_settings({"MARINA_TOKEN": TOKEN}, [])
    text = configuration(settings, Ports(1, 2, 3, 4, 5), 6, "theirs", archives, tmp_path, 9_000_000)
    assert "@" not in re.sub("@(unauthorized|unknown|too_large|busy)", "", text)
    assert f'"~^Bearer {TOKEN}$" 1;' in text
    two = read_settings({"MARINA_TOKEN": f"{TOKEN} {TOKEN[::-1]}"}, [])
    rotated = configuration(two, Ports(), 6, "theirs", archives, tmp_path, 9_000_000)
    assert all(f'"~^Bearer {token}$" 1;' in rotated for token in (TOKEN, TOKEN[::-1]))
    assert "client_max_body_size 9000000;" in text
    assert "client_max_body_size 1000000;" in text  # for gRPC
    assert "limit_conn requests 32;" in text
    assert 'Authorization "Bearer theirs"' in text
    opened = configuration(read_settings({}, ["serve"]), Ports(), 6, "theirs", archives[:1], tmp_path, 9_000_000)
    assert 'default "intents";' in opened


def test_no_larger_body_is_taken_than_a_model_takes(archives: list[Archive], tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.config.write_text("max_request_size=6553500\n")
    assert body_bytes(project, archives) == 500_000
    project.config.write_text("max_request_size=100\n")
    assert body_bytes(project, archives) == 100


@pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")
@pytest.mark.parametrize(
    ("header", "body", "at_once"),
    [
        ("Content-Length: 1000000", b"{", LARGE_BODIES),
        ("Transfer-Encoding: chunked", b"1\r\n{\r\n", LARGE_BODIES),
        ("Content-Length: 100000", b"{", MEDIUM_BODIES),
        ("Content-Length: 99999", b"{", REQUESTS),
    ],
)
def test_few_large_bodies_and_many_small_ones_are_taken_at_once(
    header: str, body: bytes, at_once: int, archives: list[Archive], tmp_path: Path
) -> None:
    port, grpc_port, metrics_port = free_ports(3)
    settings = replace(
        read_settings({"MARINA_TOKEN": TOKEN}, []), port=port, grpc_port=grpc_port, metrics_port=metrics_port
    )
    text = configuration(settings, Ports(), 6, "theirs", archives, tmp_path, 6_000_000)
    head = f"POST /predictions/intents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{header}\r\n\r\n"
    with refusals(tmp_path) as counted, nginx(text), ExitStack() as stack:
        wait_until(lambda: is_listening(port), 20)
        sent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(at_once + 3)]
        for connection in sent:
            connection.sendall(head.encode() + body)
        wait_until(lambda: len(select.select(sent, [], [], 0)[0]) == 3, 20)
        refused, _, _ = select.select(sent, [], [], 0)
        assert all(b" 503 " in connection.recv(1000).splitlines()[0] for connection in refused)
        wait_until(lambda: 'marina_refusals_total{status="503"} 3' in counted.metrics(), 20)
        # probes are not refused, and nobody without a token takes a place: here nothing answers behind nginx
        for path in ("/ping", "/v2/health/live"):
            url = f"http://127.0.0.1:{port}{path}"
            assert requests.get(url, timeout=10).status_code == 502
            assert requests.post(url, data=b"{", timeout=10).status_code == 405
        # a request that ends makes room
        next(connection for connection in sent if connection not in refused).close()
        again = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        again.sendall(head.encode() + body)
        assert not select.select([again], [], [], 0.3)[0]


def test_java_gets_the_memory_of_a_container() -> None:
    memory = f"vmargs=-Xmx{HEAP_MIB}m -XX:MaxDirectMemorySize={DIRECT_MIB}m"
    line = "vmargs=-Xmx1536m -XX:MaxDirectMemorySize=512m -XX:+ExitOnOutOfMemoryError"
    expected = f"{memory} -XX:+ExitOnOutOfMemoryError"
    assert with_java_memory([line, "max_request_size=1"]) == ["max_request_size=1", expected]
    assert with_java_memory(["max_request_size=1"]) == ["max_request_size=1", memory]


@pytest.mark.parametrize(
    ("body_bytes", "at_once"), [(500_000, LARGE_BODIES), (6_400_000, 4), (9_000_000, 2), (10**9, 1)]
)
def test_the_larger_bodies_are_the_fewer_are_taken_at_once(body_bytes: int, at_once: int) -> None:
    assert large_bodies(body_bytes) == at_once


def test_archives_are_offered_by_links(archives: list[Archive], tmp_path: Path) -> None:
    project = Project(tmp_path)
    folder = archives[0].path.parent
    offer_archives(project, folder, ["intents"])
    offer_archives(project, folder, [])  # as when the container starts again
    assert (project.model_store / "intents.mar").resolve() == archives[0].path
    with pytest.raises(DeployError, match="has no archive other"):
        offer_archives(project, folder, ["other"])
    with pytest.raises(DeployError, match="has no archive"):
        offer_archives(project, tmp_path / "empty", [])


def test_archives_that_are_gone_are_not_offered_again(tmp_path: Path) -> None:
    project, folder = Project(tmp_path / "project"), tmp_path / "archives"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.mar").write_bytes(b"archive")
    offer_archives(project, folder, [])
    (folder / "b.mar").rename(folder / "c.mar")
    offer_archives(project, folder, [])
    assert sorted(path.name for path in project.model_store.iterdir()) == ["a.mar", "c.mar"]


def test_archives_in_the_model_store_itself_stay(tmp_path: Path) -> None:
    project, folder = Project(tmp_path / "project"), tmp_path / "archives"
    for place, names in ((folder, ("a", "b")), (project.model_store, ("b", "mine"))):
        place.mkdir(parents=True)
        for name in names:
            (place / f"{name}.mar").write_text(place.name)
    for _ in range(2):
        offer_archives(project, folder, [])
        offer_archives(project, project.model_store, [])
        content = {path.name: path.read_text() for path in project.model_store.iterdir()}
        assert content == {"a.mar": "archives", "b.mar": "model_store", "mine.mar": "model_store"}


class Managed:
    """Workers by model: -1 if TorchServe does not answer."""

    def __init__(self, **workers: int) -> None:
        self.workers = workers

    def status(self, name: str) -> ModelStatus:
        if self.workers[name] < 0:
            raise ServerError("no answer")
        return ModelStatus(name, "1", 2, self.workers[name], 8, 0, [])


def test_it_is_ready_while_every_model_has_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    managed = Managed(a=2, b=1)
    health = Health(managed, ["a", "b"])  # type: ignore[arg-type]
    assert health.missing() == []
    managed.workers = {"a": 0, "b": -1}
    assert health.missing() == []  # not asked again so soon
    now[0] += 1
    assert health.missing() == ["a", "b"]
    assert not health.dead()
    now[0] += 400
    assert health.dead()
    managed.workers = {"a": 1, "b": 1}
    now[0] += 1
    assert not health.dead()


def test_the_health_check_asks_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    (closed_port,) = free_ports(1)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    with probes(Health(Managed(), []), str) as port:  # type: ignore[arg-type]
        monkeypatch.setenv("MARINA_PORT", str(port))
        assert check.main() == 0


def test_a_probe_may_ask_for_the_head_alone() -> None:
    with probes(Health(Managed(), []), str) as port:  # type: ignore[arg-type]
        for path in ("/ready", "/live"):
            answers = [requests.request(method, f"http://127.0.0.1:{port}{path}") for method in ("GET", "HEAD")]
            assert [answer.status_code for answer in answers] == [200, 200]
            assert answers[0].headers["Content-Length"] == answers[1].headers["Content-Length"]
