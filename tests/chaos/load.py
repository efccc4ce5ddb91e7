"""Clients that send requests from threads until they are stopped, and count what becomes of each."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from marina.client import Client
from marina.errors import MarinaError
from tests.end_to_end.conftest import Server

TIMEOUT_S = 60


@dataclass
class Counts:
    """Outcomes by what they are: an HTTP status, or the name of an exception; and the seconds of answers."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return sum(self.outcomes.values())

    @property
    def answered(self) -> int:
        return self.outcomes["200"]

    def percentile(self, share: float) -> float:
        """Seconds within which this share of the answers came."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    def row(self) -> dict[str, str]:
        """The counts for a table."""
        outcomes = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(self.outcomes.items()))
        latency = {"p50 ms": f"{self.percentile(0.5) * 1000:.0f}", "p99 ms": f"{self.percentile(0.99) * 1000:.0f}"}
        return {"sent": str(self.sent), "outcomes": outcomes, **latency}


class Connection:
    """A plain client that does nothing about failures: it opens a new connection after each."""

    def __init__(self, server: Server, model: str) -> None:
        self._server, self._path = server, f"/predictions/{model}"
        self._token = server.token()
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, body: bytes) -> str:
        """Send a request; returns its status, or the name of the exception."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._server.ports[0], timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            self._connection.request("POST", self._path, body, headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return type(error).__name__
        return str(response.status)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None


def body_of(*texts: str) -> bytes:
    return json.dumps({"inputs": list(texts)}).encode()


class RetryingConnection:
    """`marina.client.Client` with the token of the moment."""

    def __init__(self, server: Server, model: str, limit_s: float) -> None:
        def token() -> str:
            try:
                return server.token()
            except (OSError, ValueError, KeyError):  # the server is being started
                return "none yet"

        self._model = model
        self._client = Client.http(f"http://127.0.0.1:{server.ports[0]}", token, limit_s)

    def ask(self, body: bytes) -> str:
        """Send a request; returns "200" or the error."""
        try:
            self._client.predict(self._model, json.loads(body)["inputs"])
        except MarinaError as error:
            return f"{type(error).__name__}: {error}"
        return "200"

    def close(self) -> None:
        self._client.close()


@contextmanager
def plain_clients(
    server: Server, model: str, count: int, body: bytes = body_of("change company address"), pause_s: float = 0.0
) -> Iterator[Counts]:
    """Clients that send one request after the other; they pause after a refusal."""
    with _clients([Connection(server, model) for _ in range(count)], body, pause_s) as counts:
        yield counts


@contextmanager
def retrying_clients(server: Server, model: str, count: int, limit_s: float = 120) -> Iterator[Counts]:
    """Clients that send one request after the other, each until it is answered."""
    connections = [RetryingConnection(server, model, limit_s) for _ in range(count)]
    with _clients(connections, body_of("change company address"), 0) as counts:
        yield counts


@contextmanager
def _clients(connections: Sequence[Connection | RetryingConnection], body: bytes, pause_s: float) -> Iterator[Counts]:
    counts, lock, over = Counts(), threading.Lock(), threading.Event()

    def work(connection: Connection | RetryingConnection) -> None:
        while not over.is_set():
            start = time.monotonic()
            outcome = connection.ask(body)
            with lock:
                counts.outcomes[outcome] += 1
                if outcome == "200":
                    counts.seconds.append(time.monotonic() - start)
            if outcome != "200":
                over.wait(pause_s)
        connection.close()

    threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        over.set()
        for thread in threads:
            thread.join()


def send_and_hang_up(server: Server, model: str, count: int, body: bytes) -> None:
    """Clients that send a request each, and close the connection without waiting for an answer."""
    head = (
        f"POST /predictions/{model} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token()}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", server.ports[0]))
        connection.sendall(head + body)
        connections.append(connection)
    for connection in connections:
        connection.close()
