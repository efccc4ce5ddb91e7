"""Asks a server over HTTP: a number of connections, each of which sends the next request when its answer is there.

Plain sockets and no client library, since the generator shares its cores with the server.
"""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field

CHUNK = 1 << 18


@dataclass
class Load:
    """What was seen in one window."""

    seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)  # of each answered request
    errors: int = 0
    cpu_seconds: float = 0.0  # of the generator itself


class _Connection:
    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(self.socket, selectors.EVENT_READ, self)
        self.sent = 0.0
        self._received = b""
        self._expected = 0

    def send(self, request: bytes) -> None:
        self.sent = time.perf_counter()
        self._received, self._expected = b"", 0
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """The status of the answer, once it is whole; 0 where the server closed the connection."""
        data = self.socket.recv(CHUNK)
        if not data:
            return 0
        self._received += data
        if not self._expected:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self._received[:end].lower()
            place = head.index(b"content-length:") + 15
            self._expected = end + 4 + int(head[place:].split(b"\r\n", 1)[0])
        return int(self._received[9:12]) if len(self._received) >= self._expected else None


def requests_of(path: str, token: str, bodies: list[bytes]) -> list[bytes]:
    """Whole HTTP requests for JSON bodies."""
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        "Content-Length: ",
    )
    head = "\r\n".join(lines)
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


def drive(port: int, requests: list[bytes], connections: int, warm_up_s: float, seconds: float) -> Load:
    """Keep `connections` requests in flight; what is answered in the warm-up does not count."""
    selector = selectors.DefaultSelector()
    following = 0
    load = Load()

    def send_next(connection: _Connection) -> None:
        nonlocal following
        connection.send(requests[following % len(requests)])
        following += 1

    for _ in range(connections):
        send_next(_Connection(port, selector))
    begin = time.perf_counter() + warm_up_s
    end = begin + seconds
    cpu = 0.0
    now = 0.0
    while now < end:
        for key, _ in selector.select(timeout=1):
            connection: _Connection = key.data
            status = connection.receive()
            if status is None:
                continue
            now = time.perf_counter()
            if now >= begin:
                cpu = cpu or time.process_time()
                if status == 200:
                    load.milliseconds.append((now - connection.sent) * 1000)
                else:
                    load.errors += 1
            if status != 200:
                selector.unregister(connection.socket)
                connection.socket.close()
                connection = _Connection(port, selector)
            send_next(connection)
        now = time.perf_counter()
    load.seconds = now - begin
    load.cpu_seconds = time.process_time() - cpu
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    return load
