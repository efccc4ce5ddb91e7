"""Small HTTP and gRPC servers on free loopback ports, which answer as a test says; and certificates for them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from marina.client.messages import PACKAGE, prediction_messages


class Certificate(NamedTuple):
    """A self-signed certificate for 127.0.0.1 and its key, as PEM files."""

    file: Path
    key: Path


def make_certificate(folder: Path) -> Certificate:
    """Make one; without the command openssl the test is skipped."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl, which makes the certificate, is not installed")
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(made.key), "-out", str(made.file)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made


class HttpAnswer(NamedTuple):
    """What an HTTP server sends back."""

    status: int
    content_type: str | None
    body: bytes


@contextmanager
def http_server(answer: Callable[[str | None], HttpAnswer], certificate: Certificate | None = None) -> Iterator[str]:
    """Serve while the block runs; gives the address. `answer` is called with the header Authorization."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, content_type, body = answer(self.headers["Authorization"])
            self.send_response(status)
            if content_type is not None:
                self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that refuses the certificate hangs up, and nothing is wrong here."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.file, certificate.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grpc_server(
    answer: Callable[[str | None, grpc.ServicerContext], bytes], certificate: Certificate | None = None
) -> Iterator[str]:
    """Serve TorchServe's call while the block runs; gives the address. `answer` is called with the token's entry."""
    request, response = prediction_messages()

    def predictions(_: Any, context: grpc.ServicerContext) -> Any:
        metadata = dict(context.invocation_metadata())
        return response(prediction=answer(metadata.get("authorization"), context))

    handler = grpc.unary_unary_rpc_method_handler(predictions, request.FromString, response.SerializeToString)
    service = grpc.method_handlers_generic_handler(f"{PACKAGE}.InferenceAPIsService", {"Predictions": handler})
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((service,))
        if certificate is None:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (certificate.key.read_bytes(), certificate.file.read_bytes())
            port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait(10)
