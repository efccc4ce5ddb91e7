"""Where requests go, how they are sent, and for how long: values that are passed to the generator's processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Arrivals = Literal["poisson", "constant"]

CLOSED_CONNECTIONS = 16
OPEN_CONNECTIONS = 256


@dataclass(frozen=True)
class Target:
    """Where requests go.

    Attributes:
        protocol: "rest" for HTTP/1.1, "grpc" for TorchServe's gRPC inference API.
        host, port: address of the server.
        paths: paths of the URL, for "rest"; requests take them in turn.
        model: name of the model in gRPC requests.
        token: TorchServe's inference token, or None.
    """

    protocol: Literal["rest", "grpc"]
    host: str
    port: int
    paths: tuple[str, ...] = ("",)
    model: str = ""
    token: str | None = None

    @property
    def address(self) -> str:
        """HOST:PORT, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Load:
    """How requests are sent.

    Attributes:
        connections: closed loop: number of requests in flight, one per connection. Open loop: maximum
            number of requests in flight. While all connections are in use, requests wait in the
            generator, and their wait is part of their latency.
        rate: requests per second (open loop), or None (closed loop: a connection sends its next request
            when it has received an answer).
        arrivals: open loop: "poisson" (like independent users) or "constant".
        warm_up_s: seconds at the start that are not counted.
        window_s: seconds per window.
        within: relative bound: throughput and p99 of three consecutive windows agree if their spread
            is at most this fraction of their mean.
        max_windows: maximum number of windows; the load then ends even if it is not stable.
        seconds: measure for this long, whether windows agree or not; or None.
        requests: measure this many requests, whether windows agree or not; or None.
        timeout_s: a request without an answer after this many seconds is an error.
        processes: number of generator processes.
    """

    connections: int = CLOSED_CONNECTIONS
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    warm_up_s: float = 2.0
    window_s: float = 5.0
    within: float = 0.1
    max_windows: int = 12
    seconds: float | None = None
    requests: int | None = None
    timeout_s: float = 30.0
    processes: int = 1

    def describe(self) -> str:
        """A short description, for titles."""
        if self.rate is None:
            return f"{self.connections} connection{'s' if self.connections > 1 else ''}"
        return f"{self.rate:g}/s {'Poisson' if self.arrivals == 'poisson' else 'constant'}"
