"""Where requests go, how they are sent, and for how long: values that travel to the generator's processes."""

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
        host, port: of the server.
        path: of the URL, for "rest".
        model: the name that gRPC requests carry.
        token: TorchServe's inference token, or None.
    """

    protocol: Literal["rest", "grpc"]
    host: str
    port: int
    path: str = ""
    model: str = ""
    token: str | None = None


@dataclass(frozen=True)
class Load:
    """How requests are sent.

    Attributes:
        connections: closed loop: requests in flight, one a connection. Open loop: the most that are
            in flight; what arrives while all are taken waits in the generator, and its wait counts.
        rate: requests a second (open loop), or None (closed loop: a connection sends when it has its
            answer).
        arrivals: open loop: "poisson" as independent users arrive, or "constant".
        warm_up_s: seconds at the start that do not count.
        window_s: seconds of a window.
        within: relative bound: throughput and p99 of three windows in a row agree when their spread
            is at most this part of their mean.
        most_windows: after which it ends, stable or not.
        seconds: measure this long, whether windows agree or not; or None.
        requests: measure this many requests, whether windows agree or not; or None.
        timeout_s: a request without an answer after so many seconds is an error.
        processes: of the generator.
    """

    connections: int = CLOSED_CONNECTIONS
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    warm_up_s: float = 2.0
    window_s: float = 5.0
    within: float = 0.1
    most_windows: int = 12
    seconds: float | None = None
    requests: int | None = None
    timeout_s: float = 30.0
    processes: int = 1

    def describe(self) -> str:
        """In words, for titles."""
        if self.rate is None:
            return f"{self.connections} connection{'s' if self.connections > 1 else ''}"
        return f"{self.rate:g}/s {'Poisson' if self.arrivals == 'poisson' else 'constant'}"
