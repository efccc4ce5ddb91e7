"""Sends many concurrent requests over one protocol, for the generator.

HTTP uses plain sockets instead of a client library, because the generator must take far less time
than what it measures. A slot is one connection with at most one request in flight.
"""

from __future__ import annotations

import itertools
import queue
import selectors
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from marina.bench.load.profile import Target

CHUNK = 1 << 18
# sockets that select can watch; more would need epoll, whose timeouts are whole milliseconds
MAX_SELECT_SOCKETS = 1000
CONNECT_TIMEOUT_S = 5.0
OK = ""


class RequestEnd(NamedTuple):
    """How one request ended: its slot, the kind of error or "" for none, and the time (time.monotonic)."""

    slot: int
    error: str
    at: float


def open_transport(target: Target, slots: int, timeout_s: float, sub_millisecond: bool) -> HttpSlots | GrpcSlots:
    """A transport with the given number of slots; `sub_millisecond` allows waits shorter than a millisecond."""
    if target.protocol == "grpc":
        return GrpcSlots(target, slots, timeout_s)
    return HttpSlots(target, slots, sub_millisecond)


def encode(target: Target, bodies: list[bytes]) -> list[bytes]:
    """Complete requests for JSON bodies, ready to send."""
    if target.protocol == "grpc":
        from marina.client.messages import prediction_messages

        message, _ = prediction_messages()
        return [message(model_name=target.model, input={"body": body}).SerializeToString() for body in bodies]
    lines = [f"Host: {target.address}", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {target.token}"] if target.token else []
    head = "\r\n".join([*lines, "Content-Length: "])
    return [
        f"POST {path} HTTP/1.1\r\n{head}{len(body)}\r\n\r\n".encode() + body
        for path, body in zip(itertools.cycle(target.paths), bodies)
    ]


class HttpSlots:
    """HTTP/1.1 with keep-alive connections; a slot connects when it first sends."""

    def __init__(self, target: Target, slots: int, sub_millisecond: bool) -> None:
        self._address = (target.host, target.port)
        self._connections: list[_Connection | None] = [None] * slots
        use_select = sub_millisecond and slots <= MAX_SELECT_SOCKETS
        self._selector = selectors.SelectSelector() if use_select else selectors.DefaultSelector()
        self._failed_requests: list[RequestEnd] = []

    def send(self, slot: int, request: bytes) -> None:
        """Send a request on a slot that has none in flight; `poll` returns errors."""
        connection = self._connections[slot]
        try:
            if connection is None:
                connection = self._connections[slot] = _Connection(self._address, slot)
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(request)
        except OSError as error:
            self.abandon(slot)
            self._failed_requests.append(RequestEnd(slot, _error_kind(error), time.monotonic()))

    def poll(self, timeout_s: float) -> list[RequestEnd]:
        """The requests that have ended; if there are none yet, waits at most `timeout_s` for one."""
        ended, self._failed_requests = self._failed_requests, []
        for key, _ in self._selector.select(0 if ended else max(0.0, timeout_s)):
            connection: _Connection = key.data
            try:
                outcome = connection.receive()
            except (OSError, ValueError) as error:
                outcome = (_error_kind(error), False)
            if outcome is None:
                continue
            error_kind, keep = outcome
            if connection.in_flight:
                ended.append(RequestEnd(connection.slot, error_kind, time.monotonic()))
            connection.in_flight = False
            if not keep:
                self.abandon(connection.slot)
        return ended

    def abandon(self, slot: int) -> None:
        """Give up the request in flight; `poll` ignores its answer."""
        connection = self._connections[slot]
        if connection is not None:
            self._connections[slot] = None
            if connection.socket in self._selector.get_map():
                self._selector.unregister(connection.socket)
            connection.socket.close()

    def close(self) -> None:
        """Close all connections."""
        for slot in range(len(self._connections)):
            self.abandon(slot)
        self._selector.close()


class _Connection:
    def __init__(self, address: tuple[str, int], slot: int) -> None:
        self.socket = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.slot = slot
        self.in_flight = False  # a server may close an idle connection
        self._received = b""
        self._head_length = 0  # bytes up to the body, once received
        self._body_length: int | None = None  # None if the body is chunked

    def send(self, request: bytes) -> None:
        self._received, self._head_length, self._body_length = b"", 0, None
        self.in_flight = True
        self.socket.sendall(request)

    def receive(self) -> tuple[str, bool] | None:
        """The kind of error and whether to keep the connection; None until the answer is complete."""
        data = self.socket.recv(CHUNK)
        if not data:
            return "connection closed", False
        self._received += data
        if not self._head_length and not self._read_head():
            return None
        if self._body_length is None:
            complete = self._received.endswith(b"0\r\n\r\n")
        else:
            complete = len(self._received) >= self._head_length + self._body_length
        if not complete:
            return None
        status = int(self._received[9:12])
        closing = b"\nconnection: close" in self._received[: self._head_length].lower()
        return OK if status == 200 else f"HTTP {status}", not closing

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head_length = end + 4
        head = self._received[:end].lower()
        length_start = head.find(b"\ncontent-length:")
        if length_start >= 0:
            self._body_length = int(head[length_start + 16 :].split(b"\r\n", 1)[0])
        elif b"chunked" not in head:
            raise ValueError("no length")
        return True


class GrpcSlots:
    """TorchServe's gRPC inference API, with the methods of `HttpSlots`; a slot is a channel with its own connection."""

    def __init__(self, target: Target, slots: int, timeout_s: float) -> None:
        import grpc

        from marina.client.messages import prediction_messages
        from marina.client.tokens import call_metadata
        from marina.client.transport import PREDICTIONS

        _, response = prediction_messages()
        channel_options = [("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.insecure_channel(target.address, options=channel_options) for _ in range(slots)]
        self._calls = [channel.unary_unary(PREDICTIONS, None, response.FromString) for channel in self._channels]
        self._metadata = call_metadata(target.token)
        self._timeout_s = timeout_s
        self._ended_requests: queue.SimpleQueue[tuple[Any, RequestEnd]] = queue.SimpleQueue()
        self._in_flight: dict[int, Any] = {}

    def send(self, slot: int, request: bytes) -> None:
        future = self._calls[slot].future(request, metadata=self._metadata, timeout=self._timeout_s)
        self._in_flight[slot] = future
        future.add_done_callback(partial(self._on_done, slot))

    def _on_done(self, slot: int, future: Any) -> None:
        end_time = time.monotonic()
        self._ended_requests.put((future, RequestEnd(slot, _grpc_error_kind(future), end_time)))

    def poll(self, timeout_s: float) -> list[RequestEnd]:
        ended: list[RequestEnd] = []
        next_outcome: Callable[[], tuple[Any, RequestEnd]] = partial(
            self._ended_requests.get, timeout=max(0.0, timeout_s)
        )
        while True:
            try:
                future, outcome = next_outcome()
            except queue.Empty:
                return ended
            if self._in_flight.get(outcome.slot) is future:
                del self._in_flight[outcome.slot]
                ended.append(outcome)
            next_outcome = self._ended_requests.get_nowait

    def abandon(self, slot: int) -> None:
        future = self._in_flight.pop(slot, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        for slot in list(self._in_flight):
            self.abandon(slot)
        for channel in self._channels:
            channel.close()


def _error_kind(error: Exception) -> str:
    """The kind of an error, for counting: there are few kinds, and they contain no addresses."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ValueError):
        return "no HTTP answer"
    return "no connection" if isinstance(error, TimeoutError) else "connection closed"


def _grpc_error_kind(future: Any) -> str:
    """The kind of an error; if the handler fails, TorchServe returns status OK with the error in the body."""
    code = future.code()
    if code.name != "OK":
        return f"gRPC {code.name}"
    answer: bytes = future.result().prediction
    if answer.startswith(b'{"code"'):
        return f"gRPC answer {answer[8:11].decode(errors='replace')}"
    return OK
