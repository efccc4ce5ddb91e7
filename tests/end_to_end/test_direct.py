"""What only the host `direct` has: gRPC of the Open Inference Protocol, a page, clients that are slow or hostile."""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import requests
import tritonclient.grpc
from hypothesis import given, settings
from hypothesis import strategies as st

from marina.client.messages import make_messages
from marina.server.hosts.direct.open_inference import INFER
from tests.conftest import ROOT, make_project, save_tiny_model, write_spec
from tests.embedders import save_embedder
from tests.end_to_end.conftest import Server, port_options, run_marina, serving
from tests.marina.server.hosts.direct.hostile import hostile_messages
from tests.ports import free_ports

pytestmark = pytest.mark.long
IDLE = 10_000
METHODS = (
    *(f"/inference.GRPCInferenceService/{name}" for name in ("ModelInfer", "ModelMetadata", "ModelReady")),
    "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions",
)
REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED)
WIDTH = 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two models; requests need a token."""
    project = make_project(tmp_path_factory.mktemp("direct"))
    save_embedder(project.root / "weights" / "embed")
    save_tiny_model(project.root / "weights" / "classify", "text-classification")
    for name, task in (("embed", "sentence-embedding"), ("classify", "text-classification")):
        source = {"path": f"weights/{name}"}
        write_spec(project, name, task=task, source=source, shapes={"exact": ["1x16", "4x64"]})
    packed = run_marina(project, "archive")
    assert packed.returncode == 0, packed.stderr
    with serving(project, MARINA_HOST="direct") as server:
        yield server


def infer_tensor(texts: list[str]) -> Any:
    tensor = tritonclient.grpc.InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array(texts, dtype=object))
    return tensor


def test_tritons_client_over_grpc(server: Server) -> None:
    headers = {"authorization": f"Bearer {server.token()}"}
    plain = server.post("embed", {"inputs": ["a text", "grüße 👍"]}).json()
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.ports[3]}") as triton:
        assert triton.is_server_live() and triton.is_server_ready()
        assert triton.is_model_ready("embed", headers=headers)
        assert triton.get_server_metadata(as_json=True)["name"] == "marina"
        metadata = triton.get_model_metadata("classify", headers=headers, as_json=True)
        assert (metadata["name"], len(metadata["versions"])) == ("classify", 1)
        answered = triton.infer("embed", [infer_tensor(["a text", "grüße 👍"])], headers=headers, request_id="7")
        assert np.allclose(answered.as_numpy("embedding"), plain, atol=1e-6)
        assert answered.get_response().id == "7"
        ranked = triton.infer("classify", [infer_tensor(["ok"])], headers=headers)
        assert ranked.as_numpy("label").shape == ranked.as_numpy("score").shape == (1, 2)
        number = tritonclient.grpc.InferInput("text", [1], "INT32")
        number.set_data_from_numpy(np.array([1], dtype=np.int32))
        for model, tensor, sent, status in (
            ("embd", infer_tensor(["a"]), headers, "NOT_FOUND"),
            ("embed", infer_tensor(["a"]), {}, "PERMISSION_DENIED"),
            ("embed", infer_tensor(["a"]), {"authorization": "Bearer wrong"}, "PERMISSION_DENIED"),
            ("embed", number, headers, "INVALID_ARGUMENT"),
            ("embed", infer_tensor(["a"] * 1000), headers, "RESOURCE_EXHAUSTED"),
        ):
            with pytest.raises(tritonclient.grpc.InferenceServerException) as refused:
                triton.infer(model, [tensor], headers=sent)
            assert refused.value.status() == f"StatusCode.{status}", refused.value.message()


def test_the_page_on_clients_shows_tritons(server: Server) -> None:
    shown = (ROOT / "docs" / "guides" / "clients.md").read_text().partition("import numpy, tritonclient")
    code = "".join(shown[1:]).partition("```")[0]
    seen: dict[str, Any] = {"token": server.token()}
    exec(code.replace("resume-search", "embed").replace("7070", str(server.ports[3])), seen)
    assert seen["answer"].as_numpy("embedding").shape == (2, WIDTH)
    seen["client"].close()


@pytest.mark.parametrize("package", ["inference", "org.pytorch.serve.grpc.openinference"])
def test_tensors_that_are_not_raw(server: Server, package: str) -> None:
    """As KServe's client and TorchServe's own protocol file have them."""
    messages = make_messages(package, INFER)
    metadata = (("authorization", f"Bearer {server.token()}"),)
    with grpc.insecure_channel(f"127.0.0.1:{server.ports[3]}") as channel:
        infer = channel.unary_unary(
            f"/{package}.GRPCInferenceService/ModelInfer",
            request_serializer=messages["ModelInferRequest"].SerializeToString,
            response_deserializer=messages["ModelInferResponse"].FromString,
        )
        request = messages["ModelInferRequest"](model_name="classify")
        tensor = request.inputs.add(name="text", datatype="BYTES", shape=[2])
        tensor.contents.bytes_contents.extend([b"ok", b"thanks"])
        request.parameters["top_k"].int64_param = 1
        answer = infer(request, metadata=metadata, timeout=30)
        assert {output.name: list(output.shape) for output in answer.outputs} == {"label": [2, 1], "score": [2, 1]}
        by_name = {output.name: output.contents for output in answer.outputs}
        assert len(by_name["label"].bytes_contents) == len(by_name["score"].fp32_contents) == 2
        tensor.contents.bytes_contents[0] = b"\xff"
        with pytest.raises(grpc.RpcError) as refused:
            infer(request, metadata=metadata, timeout=30)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_calls_that_their_clients_cancel_harm_no_worker(server: Server) -> None:
    workers = server.worker_pids("embed")
    metadata = (("authorization", f"Bearer {server.token()}"),)
    messages = make_messages("inference", INFER)
    request = messages["ModelInferRequest"](model_name="embed")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[8])
    tensor.contents.bytes_contents.extend([b"a text"] * 8)
    named = messages["Named"](name="embed")
    cancelled = 0
    with grpc.insecure_channel(f"127.0.0.1:{server.ports[3]}") as channel:
        infer, describe = (
            channel.unary_unary(f"/inference.GRPCInferenceService/{name}") for name in ("ModelInfer", "ModelMetadata")
        )
        for number in range(100):
            for call, message in ((infer, request), (describe, named)):
                future = call.future(message.SerializeToString(), metadata=metadata)
                time.sleep(number / 20_000)  # at every stage of it
                cancelled += future.cancel()
    assert cancelled > 20
    assert server.post("embed", {"inputs": "a text"}).status_code == 200
    assert server.worker_pids("embed") == workers


def test_calls_without_tokens_or_messages_keep_nobody_out(server: Server) -> None:
    infer = "/inference.GRPCInferenceService/ModelInfer"
    metadata = (("authorization", f"Bearer {server.token()}"),)
    go_on = threading.Event()

    def silent() -> Iterator[bytes]:
        go_on.wait(60)
        yield from ()

    with ExitStack() as stack:
        stack.callback(go_on.set)
        channels = [stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.ports[3]}")) for _ in range(2)]
        started = time.monotonic()
        refused = [channels[0].stream_unary(infer).future(silent()) for _ in range(1500)]
        # before their messages come; a client that still sends may see its stream end before the status
        codes = {call.exception(timeout=30).code() for call in refused}
        assert (
            {grpc.StatusCode.PERMISSION_DENIED}
            <= codes
            <= {
                grpc.StatusCode.PERMISSION_DENIED,
                grpc.StatusCode.CANCELLED,
            }
        )
        assert time.monotonic() - started < 30
        large = channels[0].unary_unary(infer).future(b"x" * 900_000)
        assert large.exception(timeout=30).code() is grpc.StatusCode.PERMISSION_DENIED
        waiting = [channels[0].stream_unary(infer).future(silent(), metadata=metadata) for _ in range(20)]
        headers = {"authorization": f"Bearer {server.token()}"}
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.ports[3]}") as triton:
            assert triton.infer("embed", [infer_tensor(["a"])], headers=headers).as_numpy("embedding").size == WIDTH
        for call in waiting:
            call.cancel()


def test_clients_that_do_not_read_keep_nobody_out(server: Server) -> None:
    front = psutil.Process(json.loads(server.marina("status", "--json").stdout)["pid"])
    before = front.memory_info().rss
    page = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[0]), timeout=5))
            with suppress(OSError):
                connection.sendall(page * 2000)
        assert ask(server)[0] == 200
        assert front.memory_info().rss - before < 200e6
    assert "Traceback" not in (server.project.run / "logs" / "console.log").read_text()


def ask(server: Server) -> tuple[int, float]:
    """The status of an answer, and the seconds that it took."""
    start = time.monotonic()
    return server.post("embed", {"inputs": "a text"}).status_code, time.monotonic() - start


def test_idle_and_slow_connections_keep_nobody_out(server: Server) -> None:
    """10,000 connections that send nothing, and then the heads of requests, byte after byte."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    front = psutil.Process(json.loads(server.marina("status", "--json").stdout)["pid"])
    before = front.memory_info().rss
    with ExitStack() as stack:
        count = min(IDLE, most_files - 1000)
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[0]))) for _ in range(count)
        ]
        assert ask(server)[0] == 200
        for connection in connections:
            connection.sendall(b"POST /predictions/embed HTTP/1.1\r\nHost:")
        status, seconds = ask(server)
        grown = front.memory_info().rss - before
        print(f"{count} connections: {grown / 1e6:.0f} MB, and the next client's answer took {seconds * 1000:.0f} ms")
        assert status == 200
        assert grown < 300e6
        deadline = time.monotonic() + 60
        while front.num_fds() > 1000:  # each is closed, though bytes come in
            for connection in connections[::10]:
                with suppress(OSError):
                    connection.sendall(b" ")
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert ask(server)[0] == 200


def raw(server: Server, head: str, body: bytes = b"", chunk: bytes = b"", chunks: int = 0) -> bytes:
    """What comes back for bytes that are sent as they are."""
    with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=20) as connection:
        text = head.replace("TOKEN", f"Authorization: Bearer {server.token()}").replace("\n", "\r\n")
        connection.sendall(text.encode() + body)
        with suppress(ConnectionError):  # it is closed while we send
            for _ in range(chunks):
                connection.sendall(chunk)
        received = b""
        with suppress(ConnectionError, TimeoutError):
            while part := connection.recv(65536):
                received += part
        return received


PREDICT = "POST /predictions/embed HTTP/1.1\nHost: x\nConnection: close\nTOKEN\n"


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (PREDICT + "Content-Length: 2\nTransfer-Encoding: chunked\n\n", b"0\r\n\r\n", 400),
        (PREDICT + "Transfer-Encoding: chunked\nContent-Length: 2\n\n", b"0\r\n\r\n", 400),
        (PREDICT + "Content-Length: 2\nContent-Length: 3\n\n", b"ok", 400),
        (PREDICT + "Content-Length: -1\n\n", b"", 400),
        (PREDICT + "Transfer-Encoding: chunked\n\n", b"zz\r\nok\r\n0\r\n\r\n", 400),
        (PREDICT + "".join(f"A{number}: b\n" for number in range(500)) + "\n", b"", 400),
        (PREDICT + "Content-Length: 2\n\n", b"ok", 200),
        (PREDICT + "Transfer-Encoding: chunked\n\n", b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n", 200),
        (PREDICT + "Content-Length: 999999999999\n\n", b"", 413),
        ("PRI * HTTP/2.0\n\n", b"SM\r\n\r\n", 400),
        ("GET /%ff%00/../.. HTTP/1.1\nHost: x\nConnection: close\n\n", b"", 404),
        ("GET http://[::1 HTTP/1.1\nHost: x\n\n", b"", 400),
        ("BREW /ping HTTP/1.1\nHost: x\n\n", b"", 400),
        ("HEAD /ping HTTP/1.1\nHost: x\nConnection: close\n\n", b"", 200),
    ],
)
def test_requests_that_are_not_well_formed(server: Server, head: str, body: bytes, status: int) -> None:
    answer = raw(server, head, body)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert answer.count(b"HTTP/1.1") == 1, "a part of the body was read as another request"
    assert ask(server)[0] == 200


def test_heads_and_bodies_without_an_end(server: Server) -> None:
    front = psutil.Process(json.loads(server.marina("status", "--json").stdout)["pid"])
    before = front.memory_info().rss
    endless = raw(server, "GET / HTTP/1.1\nA: ", chunk=b"x" * 10_000, chunks=10_000)
    assert endless.startswith(b"HTTP/1.1 400 ") or not endless  # reset while we send
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    answer = raw(server, PREDICT + "Transfer-Encoding: chunked\n\n", chunk=chunk, chunks=3000)
    assert answer.startswith(b"HTTP/1.1 413 ") or not answer
    assert front.memory_info().rss - before < 100e6
    assert ask(server)[0] == 200


@settings(max_examples=300)
@given(mutations=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40), st.binary(max_size=12)), max_size=4))
def test_bytes_of_any_kind_keep_nobody_out(server: Server, mutations: list[tuple[int, int, bytes]]) -> None:
    """A request of which parts are lost, and others come in between."""
    content = PREDICT.replace("TOKEN", f"Authorization: Bearer {server.token()}").replace("\n", "\r\n")
    sent = (content + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n").encode()
    for start, length, part in mutations:
        sent = sent[:start] + part + sent[start + length :]
    received = b""
    with socket.create_connection(("127.0.0.1", server.ports[0])) as connection:
        connection.settimeout(0.1)  # what is no whole request has no answer
        with suppress(ConnectionError, TimeoutError):
            connection.sendall(sent)
            while part := connection.recv(65536):
                received += part
    assert not received or re.match(rb"HTTP/1\.1 (200|400|401|404|405|408|411|413|415|503) ", received), received
    assert ask(server)[0] == 200


@settings(max_examples=300)
@given(method=st.sampled_from(METHODS), content=hostile_messages("embed") | st.binary(max_size=60))
def test_messages_of_any_kind_keep_nobody_out(server: Server, method: str, content: bytes) -> None:
    metadata = (("authorization", f"Bearer {server.token()}"),)
    with grpc.insecure_channel(f"127.0.0.1:{server.ports[3]}") as channel:
        error = channel.unary_unary(method).future(content, metadata=metadata).exception(timeout=30)
    assert error is None or error.code() in REFUSALS, error
    assert ask(server)[0] == 200


def test_a_job_in_bulk_lets_others_pass(server: Server) -> None:
    body = json.dumps({"inputs": ["some words of a text in bulk"] * 16}).encode()
    headers = {"Authorization": f"Bearer {server.token()}", "X-Marina-Priority": "bulk"}
    url = f"{server.url}/predictions/embed"

    def send(_: int) -> int:
        return requests.post(url, data=body, headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(16) as pool:
        sent = [pool.submit(send, number) for number in range(200)]
        answers = [ask(server)[0] for _ in range(20)]
        assert set(answers) == {200}
        assert {job.result() for job in sent} <= {200, 503}


def test_the_page_needs_no_network_and_runs_its_own_script_alone(server: Server) -> None:
    page = requests.get(f"{server.url}/docs", timeout=10)
    assert page.status_code == 200
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text
    document = requests.get(f"{server.url}/openapi.json", timeout=10).json()
    assert "/predictions/{name}" in document["paths"]
    # strangers do not learn which models there are
    assert "classify" not in page.text + json.dumps(document["paths"])


def test_without_tokens(server: Server, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    shutil.copytree(server.project.model_store, project.model_store, dirs_exist_ok=True)
    ports = free_ports(5)
    try:
        started = run_marina(project, "serve", *port_options(ports), "--no-auth", MARINA_HOST="direct")
        assert "warning: requests need no token" in started.stdout, started.stderr
        url = f"http://127.0.0.1:{ports[0]}"
        assert requests.post(f"{url}/predictions/embed", json={"inputs": "a"}, timeout=30).status_code == 200
        assert requests.get(f"{url}/v1/models", headers={"Host": "LOCALHOST"}, timeout=30).status_code == 200
        (tokens,) = requests.post(f"{url}/tokenize", json={"inputs": "ok", "model": "embed"}, timeout=30).json()
        assert [token["text"] for token in tokens][-2:] == ["ok", "[SEP]"]
        (first, *_) = requests.get(f"{url}/info", timeout=30).json()["models"].values()
        assert first["max_input_length"] == 64
        for port in (ports[0], ports[2]):
            for name, value in (("Host", f"evil.example:{ports[0]}"), ("Origin", "https://evil.example")):
                sent = requests.get(f"http://127.0.0.1:{port}/metrics", headers={name: value}, timeout=30)
                assert (sent.status_code, sent.json()["type"]) == (403, "WrongHost")
        assert requests.get(f"http://127.0.0.1:{ports[1]}/models", timeout=10).status_code == 401
        chromium = shutil.which("chromium")
        if chromium:  # the page then shows the models at once
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
            seen = subprocess.run(
                [chromium, *options, f"{url}/docs"], capture_output=True, text=True, timeout=60, check=True
            )
            assert seen.stdout.count("<article>") == 2
            assert "sentence-embedding, openvino" in seen.stdout
    finally:
        run_marina(project, "stop")


def test_what_is_for_this_host_alone(server: Server, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    shutil.copytree(server.project.model_store, project.model_store, dirs_exist_ok=True)
    refused = run_marina(project, "serve", "--no-auth", "--host", "torchserve")
    assert refused.returncode == 1
    assert "error: torchserve needs tokens, and has no page; add --host direct" in refused.stderr
    running = server.marina("serve", "--no-docs")
    assert (running.returncode, running.stdout) == (1, "")
    assert "a server is running already, with other access" in running.stderr
