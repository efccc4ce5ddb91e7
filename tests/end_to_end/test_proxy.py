"""The proxy for clients on other machines, and the canary of docs/operations.md, by a real nginx."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import requests

from marina.client import Client
from tests.conftest import ROOT, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.end_to_end.proxies import needs_nginx, nginx
from tests.marina.client.servers import Certificate, make_certificate
from tests.ports import free_ports

pytestmark = [pytest.mark.long, needs_nginx]
JSON = {"Content-Type": "application/json"}
BODY = b'{"inputs": "ok"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    project = make_project(tmp_path_factory.mktemp("proxied"))
    save_tiny_model(project.root / "weights", "text-classification")
    shapes = {"exact": ["1x16", "4x64"]}
    write_spec(project, "ava-intent", task="text-classification", source={"path": "weights"}, shapes=shapes)
    assert run_marina(project, "archive").returncode == 0
    with serving(project) as running:
        yield running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def put_certificate(folder: Path, certificate: Certificate) -> None:
    """Copy a certificate to where deploy/nginx-public.conf has it, seen from the folder that nginx starts in."""
    (folder / "build" / "tls").mkdir(parents=True)
    shutil.copy(certificate.file, folder / "build" / "tls" / "certificate.pem")
    shutil.copy(certificate.key, folder / "build" / "tls" / "key.pem")


@pytest.fixture(scope="module")
def public(server: Server, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of deploy/nginx-public.conf, with a short time for bodies and a small rate."""
    folder = tmp_path_factory.mktemp("public")
    put_certificate(folder, certificate)
    (port,) = free_ports(1)
    changes = {
        "127.0.0.1:8080": f"127.0.0.1:{server.ports[0]}",
        "8443": str(port),
        "client_body_timeout 10s": "client_body_timeout 1s",
        "rate=200r/s": "rate=50r/s",
        "burst=400": "burst=30",
    }
    with nginx(folder, (ROOT / "deploy" / "nginx-public.conf").read_text(), changes, port):
        yield port


@pytest.fixture
def post(server: Server, public: int, certificate: Certificate) -> Callable[..., requests.Response]:
    def post(path: str = "/predictions/ava-intent", body: bytes = BODY, method: str = "POST") -> requests.Response:
        time.sleep(0.05)  # below the rate
        headers = {**JSON, "Authorization": f"Bearer {server.token()}"}
        url = f"https://127.0.0.1:{public}{path}"
        return requests.request(method, url, data=body, headers=headers, verify=str(certificate.file), timeout=30)

    return post


@pytest.fixture
def raw(server: Server, public: int, certificate: Certificate) -> Callable[[bytes], bytes]:
    """Sends bytes over TLS, and gives the first line of the answer; "" if the connection ends without one."""

    def send(content: bytes) -> bytes:
        context = ssl.create_default_context(cafile=str(certificate.file))
        with (
            socket.create_connection(("127.0.0.1", public), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(content.replace(b"TOKEN", server.token().encode()))
            return connection.recv(65536).partition(b"\r\n")[0]

    return send


HEAD = (
    b"POST /predictions/ava-intent HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nContent-Type: text/plain\r\n"
)


def test_predictions_pass_and_nothing_else_does(post: Callable[..., requests.Response], public: int) -> None:
    answer = post()
    assert answer.status_code == 200
    assert answer.headers["x-request-id"]
    assert "retry-after" not in answer.headers
    for path in ("/models", "/ping", "/metrics", "/predictions/../models"):
        assert post(path).status_code == 404
    assert post(method="GET").status_code == 403
    assert post(body=b"x" * 600_000).status_code == 413
    with pytest.raises(requests.RequestException):  # TLS only
        requests.post(f"http://127.0.0.1:{public}/predictions/ava-intent", data=BODY, timeout=5).raise_for_status()


def test_what_torchserve_reads_in_its_own_way_does_not_reach_it(raw: Callable[[bytes], bytes]) -> None:
    assert raw(HEAD + b"Content-Length: 2\r\n\r\nok").startswith(b"HTTP/1.1 200 ")
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    assert b" 400 " in raw(HEAD + both)
    assert b" 400 " in raw(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok")
    assert raw(HEAD + b"Content-Length: 20\r\n\r\nok") in (
        b"",
        b"HTTP/1.1 408 Request Time-out",
    )  # the rest never comes
    assert b" 400 " in raw(b"POST * HTTP/1.1\r\nHost: x\r\n\r\n")


def test_a_client_that_sends_too_much_is_slowed(post: Callable[..., requests.Response], server: Server) -> None:
    answers: list[requests.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(post())) for _ in range(150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(answer.status_code for answer in answers)
    assert set(counts) == {200, 429}
    assert {answer.headers["retry-after"] for answer in answers if answer.status_code == 429} == {"1"}
    assert server.post("ava-intent", {"inputs": "ok"}).status_code == 200


def test_a_client_behind_the_proxy_loses_nothing_as_a_worker_dies(
    server: Server, public: int, certificate: Certificate
) -> None:
    token, url = server.token(), f"https://127.0.0.1:{public}"
    failures: list[str] = []

    def ask() -> None:
        with Client.http(url, token, 120, certificates=certificate.file) as client:
            for _ in range(40):
                try:
                    client.classify("ava-intent", ["ok"])
                except Exception as error:
                    failures.append(repr(error))
                time.sleep(0.1)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(1)
        for pid in server.worker_pids("ava-intent"):
            os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert failures == []


class Upstream(BaseHTTPRequestHandler):
    """Answers every request with 507, as TorchServe does when the kernel has killed the worker that had it."""

    def do_POST(self) -> None:
        self.send_response(507)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_what_is_to_be_sent_again_says_so(certificate: Certificate, tmp_path: Path) -> None:
    put_certificate(tmp_path, certificate)
    (port,) = free_ports(1)
    with HTTPServer(("127.0.0.1", 0), Upstream) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        changes = {"127.0.0.1:8080": f"127.0.0.1:{upstream.server_port}", "8443": str(port)}
        with nginx(tmp_path, (ROOT / "deploy" / "nginx-public.conf").read_text(), changes, port):
            url = f"https://127.0.0.1:{port}/predictions/ava-intent"
            answer = requests.post(url, data=BODY, verify=str(certificate.file), timeout=30)
        upstream.shutdown()
    assert (answer.status_code, answer.headers["retry-after"]) == (507, "1")


def renamed(path: Path, version: str) -> None:
    """Give an archive another version."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["MAR-INF/MANIFEST.json"])
    manifest["model"]["modelVersion"] = version
    contents["MAR-INF/MANIFEST.json"] = json.dumps(manifest).encode()
    config = contents["model-config.yaml"].decode()
    contents["model-config.yaml"] = re.sub("version: .*", f"version: '{version}'", config).encode()
    with zipfile.ZipFile(path.with_name(".new"), "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    path.with_name(".new").replace(path)


def test_the_canary_of_the_docs(server: Server, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text().partition("## A canary")[2]
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    renamed(server.project.model_store / "ava-intent.mar", "canary")
    headers = {"Authorization": f"Bearer {server.token('management')}"}
    url = f"http://127.0.0.1:{server.ports[1]}/models"
    registered = requests.post(
        url, params={"url": "ava-intent.mar", "synchronous": "true"}, headers=headers, timeout=60
    )
    assert registered.status_code == 200, registered.text
    (port,) = free_ports(1)
    texts = [line for line in (ROOT / "deploy" / "nginx.conf").read_text().splitlines() if "temp_path" in line]
    frame = "pid build/canary.pid;\ndaemon off;\nevents {}\nhttp {\naccess_log off;\n"
    changes = {"127.0.0.1:8080": f"127.0.0.1:{server.ports[0]}", "8090": str(port), "NEW_VERSION": "canary"}
    with nginx(tmp_path, frame + "\n".join(texts) + block + "}\n", changes, port):
        seen: Counter[str] = Counter()
        headers = {**JSON, "Authorization": f"Bearer {server.token()}"}
        tensors = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["ok"]}]}
        with requests.Session() as session:
            for _ in range(600):
                answer = session.post(
                    f"http://127.0.0.1:{port}/predictions/ava-intent", json=tensors, headers=headers, timeout=30
                )
                assert answer.status_code == 200
                seen[answer.json()["model_version"]] += 1
    assert set(seen) == {"canary", *seen} and len(seen) == 2
    assert 5 <= seen["canary"] <= 80  # 5 % of 600
    # the upgrade takes the version that is there
    assert server.marina("upgrade", "ava-intent").returncode == 0
    (model,) = json.loads(server.marina("status", "--json").stdout)["models"]
    assert model["version"] == "canary"
