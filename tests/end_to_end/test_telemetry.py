"""Spans that a real server sends to a collector, and its logs as JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from marina.project import Project
from tests.conftest import ENGINE, make_project, save_tiny_model, write_spec
from tests.end_to_end.conftest import MARINA, Server, port_options, serving
from tests.end_to_end.conftest import run_marina as run
from tests.ports import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.long
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET_TEXT = "the customer's own words"


class Collector:
    """Takes spans as a collector of OpenTelemetry does."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.bodies.append(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    named = {each.key: each.value.string_value for each in resource.resource.attributes}
                    outer.services.add(named["service.name"])
                    outer.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("traced"))
    save_tiny_model(project.root / "weights", "text-classification")
    fields = {"task": "text-classification", "source": {"path": "weights"}, "shapes": {"exact": ["1x16"]}}
    write_spec(project, "intents", engine=ENGINE, **fields)
    assert run(project, "archive").returncode == 0
    return project


def send(server: Server, **headers: str) -> requests.Response:
    bearer = {"Authorization": f"Bearer {server.token()}"}
    url = f"{server.url}/predictions/intents"
    return requests.post(url, json={"inputs": SECRET_TEXT}, headers={**bearer, **headers}, timeout=60)


def test_sampled_requests_have_spans_in_a_collector(packed: Project, collector: Collector) -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "intents-service"}
    with serving(packed, **given) as server:
        for flags in ("00", "01"):
            parent = f"00-{TRACE}-{PARENT}-{flags}"
            answer = send(server, traceparent=parent)
            assert (answer.status_code, answer.headers["traceparent"]) == (200, parent)
        assert send(server).status_code == 200
        wait_until(lambda: any(span.name == "predict intents" for span in collector.spans), 60)
    (root,) = (span for span in collector.spans if span.name == "predict intents")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    stages = [span.name for span in collector.spans if span.parent_span_id == root.span_id]
    assert {"read", "tokenize", "plan", "graph", "answer"} <= set(stages)
    assert collector.services == {"intents-service"}
    assert not any(word.encode() in body for body in collector.bodies for word in SECRET_TEXT.split())


def test_a_collector_that_is_away_costs_nothing(packed: Project) -> None:
    (nobody,) = free_ports(1)
    with serving(packed, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{nobody}") as server:
        answers = [send(server, traceparent=f"00-{TRACE}-{PARENT}-01") for _ in range(20)]
    assert {answer.status_code for answer in answers} == {200}


def test_logs_are_objects(packed: Project, tmp_path: Path) -> None:
    command = [*MARINA, "serve", "--foreground", "--json", *port_options(free_ports(5))]
    log = tmp_path / "log"
    with log.open("w") as output, subprocess.Popen(command, cwd=packed.root, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: '"model": "intents"' in log.read_text(), 120, log.read_text)  # a worker's line
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            run(packed, "stop")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    assert any("stopping" in line["message"] for line in lines)
