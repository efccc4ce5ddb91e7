"""Spans of requests over OTLP, where OpenTelemetry is installed and its variables name a collector.

A span is written for each request whose `traceparent` (W3C Trace Context) says that its trace is sampled; its children
are the time in queues and the stages of its batch. Spans have no texts and no answers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from handlers.worker.telemetry.tracing import TRACEPARENT, trace_id

# https://opentelemetry.io/docs/specs/otel/protocol/exporter/
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PACKAGE = "opentelemetry-exporter-otlp-proto-http"
EXPORT_S = 3
NS = 1_000_000_000
_log = logging.getLogger(__name__)


class Spans:
    """Writes the spans of a worker.

    Args:
        provider: a `TracerProvider` of OpenTelemetry.
        name, version: of the archive.
    """

    def __init__(self, provider: Any, name: str, version: str) -> None:
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("marina", version)
        self._read_context = TraceContextTextMapPropagator().extract
        self._context_of = set_span_in_context
        self._kind, self._error = SpanKind.SERVER, StatusCode.ERROR
        self._name, self._version = name, version

    def write(
        self,
        headers: Mapping[str, str],
        status: int,
        received: float,
        waited_ms: float | None,
        stages: Mapping[str, float],
        requests: int,
    ) -> None:
        """Write the spans of a request; nothing if its trace is not sampled.

        Args:
            headers: of the request, with lower-case names.
            status: of its answer, as in HTTP.
            received: when the worker got it, in seconds since 1970.
            waited_ms: milliseconds in queues before that, if they are known.
            stages: seconds that its batch spent in each stage, in their order.
            requests: how many requests were in its batch.
        """
        if not is_sampled(headers):
            return
        begin = at = int((received - (waited_ms or 0.0) / 1000) * NS)
        attributes = {
            "http.response.status_code": status,
            "marina.model": self._name,
            "marina.version": self._version,
            "marina.batch.requests": requests,
        }
        parent = self._read_context(headers)
        span = self._tracer.start_span(f"predict {self._name}", parent, self._kind, attributes, start_time=begin)
        inside = self._context_of(span)
        queue = {} if waited_ms is None else {"queue": waited_ms / 1000}
        for stage, seconds in {**queue, **stages}.items():
            child = self._tracer.start_span(stage, inside, start_time=at)
            at += int(seconds * NS)
            child.end(at)
        if status >= 500:
            span.set_status(self._error)
        span.end(at)


def is_sampled(headers: Mapping[str, str]) -> bool:
    """Whether the trace of a request is recorded, by the flags of its `traceparent`."""
    return trace_id(headers) is not None and int(headers[TRACEPARENT][-2:], 16) & 1 == 1


def open_spans(name: str, version: str, environment: Mapping[str, str] = os.environ) -> Spans | None:
    """The spans of a worker; None if no variable names a collector, or OpenTelemetry is not installed or fails."""
    if not any(environment.get(variable) for variable in ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_named(Resource.create()))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=EXPORT_S)))
        return Spans(provider, name, version)
    except ImportError:
        _log.warning("no spans are written: pip install %s", PACKAGE)
    except Exception as error:  # such as a protobuf that does not fit
        _log.warning("no spans are written: OpenTelemetry fails with %s: %s", type(error).__name__, error)
    return None


def _named(resource: Any) -> Any:
    """What sends spans, as the variables of OpenTelemetry say; `marina` if they name no service."""
    from opentelemetry.sdk.resources import Resource

    unnamed = str(resource.attributes.get("service.name", "")).startswith("unknown_service")
    return resource.merge(Resource({"service.name": "marina"})) if unnamed else resource
