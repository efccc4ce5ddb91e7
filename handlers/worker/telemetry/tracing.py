"""Traces one request: its id, and the stage times of its batch."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

REQUEST_ID = "x-request-id"
# TorchServe always sets its own X-Request-Id in responses, so a client's id is returned under this name
CORRELATION_ID = "x-correlation-id"
TRACEPARENT = "traceparent"  # https://www.w3.org/TR/trace-context/
REQUEST_START = "x-request-start"
SERVER_TIMING = "server-timing"
_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_START = re.compile(r"t=(\d{10})(\.\d{1,6})?")


class StageTimes:
    """Seconds spent in the stages of one batch."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of a block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def client_request_id(headers: Mapping[str, str]) -> str | None:
    """The id that a client set for its request; None without an id that is safe in a header and a log."""
    value = headers.get(REQUEST_ID, "")
    return value if _ID.fullmatch(value) else None


def trace_id(headers: Mapping[str, str]) -> str | None:
    """The id of the trace that a request belongs to; None without a `traceparent` of W3C Trace Context."""
    match = _TRACEPARENT.fullmatch(headers.get(TRACEPARENT, ""))
    return match[1] if match and set(match[1]) != {"0"} else None


def returned_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """What of a request's headers its answer brings back, so that a client or a proxy can tell whose answer it is."""
    client_id = client_request_id(headers)
    returned = {CORRELATION_ID: client_id} if client_id else {}
    return {**returned, TRACEPARENT: headers[TRACEPARENT]} if trace_id(headers) else returned


def waited_ms(headers: Mapping[str, str], received: float) -> float | None:
    """Milliseconds between a proxy and the worker, including TorchServe's queue; None if no proxy set the time.

    Args:
        headers: the request's headers; `X-Request-Start: t=SECONDS` is set by proxies such as nginx.
        received: when the worker got the request, in seconds since 1970.
    """
    match = _START.fullmatch(headers.get(REQUEST_START, ""))
    if not match:
        return None
    return max(0.0, received - float(f"{match[1]}{match[2] or ''}")) * 1000


def server_timing(seconds: Mapping[str, float], requests: int, waited: float | None) -> str:
    """The header Server-Timing (W3C): the batch's stages in milliseconds, and how many requests shared the batch."""
    stages = [("queue", waited)] if waited is not None else []
    stages += [(name, value * 1000) for name, value in seconds.items()]
    return ", ".join([*(f"{name};dur={value:.2f}" for name, value in stages), f'batch;desc="{requests}"'])
