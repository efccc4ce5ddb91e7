"""Spans, kept in memory; tests/end_to_end/test_telemetry.py sends them to a collector."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest

from handlers.worker.telemetry.spans import Spans, _named, is_sampled, open_spans

needs_sdk = pytest.mark.skipif(
    find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None,
    reason="OpenTelemetry is not installed",
)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
STAGES = {"read": 0.001, "tokenize": 0.002, "graph": 0.01}


def written(headers: dict[str, str], status: int = 200, waited_ms: float | None = 5.0) -> list[Any]:
    """The spans of a request."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Spans(provider, "intents", "1.0").write(headers, status, 1_800_000_000.0, waited_ms, STAGES, 3)
    provider.shutdown()
    return list(exporter.get_finished_spans())


@needs_sdk
def test_a_span_belongs_to_the_trace_of_its_request() -> None:
    *children, span = written(SAMPLED)
    assert span.name == "predict intents"
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert dict(span.attributes) == {
        "http.response.status_code": 200,
        "marina.model": "intents",
        "marina.version": "1.0",
        "marina.batch.requests": 3,
    }
    assert [child.name for child in children] == ["queue", *STAGES]
    assert {child.parent.span_id for child in children} == {span.context.span_id}
    # one after the other, from the queue on
    edges = [span.start_time, *(child.end_time for child in children)]
    assert [child.start_time for child in children] == edges[:-1]
    assert span.end_time == edges[-1]
    assert round((span.end_time - span.start_time) / 1e6) == 18  # milliseconds


@needs_sdk
def test_without_a_known_wait_there_is_no_queue() -> None:
    *children, span = written(SAMPLED, 503, waited_ms=None)
    assert [child.name for child in children] == list(STAGES)
    assert span.start_time == 1_800_000_000 * 1_000_000_000
    assert not span.status.is_ok


@needs_sdk
def test_only_sampled_requests_have_spans() -> None:
    assert not written({})
    assert not written({"traceparent": f"00-{TRACE}-{PARENT}-00"})


@pytest.mark.parametrize("flags", ["00", "01", "02", "03", "ff"])
def test_the_flags_say_whether_a_trace_is_sampled(flags: str) -> None:
    assert is_sampled({"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}) == (flags in ("01", "03", "ff"))
    assert not is_sampled({"traceparent": f"00-{'0' * 32}-{PARENT}-{flags}"})


@needs_sdk
@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "marina"),
        ({"OTEL_SERVICE_NAME": "search"}, "search"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=search,team=nlp"}, "search"),
    ],
)
def test_who_sends(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], service: str) -> None:
    from opentelemetry.sdk.resources import Resource

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _named(Resource.create()).attributes["service.name"] == service


def test_without_a_collector_there_are_none(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_spans("intents", "1.0", {}) is None
    assert not caplog.records
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    assert open_spans("intents", "1.0", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None
    assert "pip install" in caplog.text
