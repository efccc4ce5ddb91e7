"""Connections over HTTP: slow and hostile clients are held here, before a request is routed.

A connection waits for a request, sends its head, or has a request that is answered. `Connections` has those of the
first two kinds: when there are too many connections, the one that has waited longest is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

IDLE_S = 75  # for a request to begin; longer than load balancers keep a connection
HEAD_S = 10.0  # for the head of a request, from its first byte
WRITE_S = 60.0  # for a client to read what it is sent
LINGER_S = 5.0  # for the rest of a body that nobody needs, after the answer
MAX_HEAD_BYTES, MAX_HEADERS = 65_536, 100
MAX_PIPELINED = 8  # requests that come before the answer to another


class Connections:
    """The connections that wait for a request, or for the rest of its head.

    Args:
        limit: the most connections of all kinds.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[Connection, None] = {}  # in the order in which they began to wait

    def wait(self, connection: Connection) -> None:
        """A connection begins to wait, as the last of them."""
        self.stop_waiting(connection)
        self._waiting[connection] = None

    def has(self, connection: Connection) -> bool:
        """Whether a connection waits."""
        return connection in self._waiting

    def stop_waiting(self, connection: Connection) -> None:
        """A connection has a request, or is closed."""
        self._waiting.pop(connection, None)

    def make_room(self, connections: int) -> None:
        """Close the connection that has waited longest if there are too many."""
        if connections > self._limit and self._waiting:
            oldest = next(iter(self._waiting))
            self.stop_waiting(oldest)  # so that the next call finds another
            oldest.close()


class Connection(HttpToolsProtocol):
    """A connection.

    Args:
        waiting: the connections that wait.
    """

    def __init__(self, waiting: Connections, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._waiting = waiting
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._in_head, self._head_begun, self._head_bytes = True, False, 0
        self._answering: Any = None  # the request that is answered; `cycle` is the last that has come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._waiting.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.stop_waiting(self)
        self._close_after(None)
        self.resume_writing()
        self.pipeline.clear()
        if self._answering and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"the head of the request has more than {MAX_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_begun = True
        if self._waiting.has(self):
            self._close_after(HEAD_S)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            raise ValueError(f"the request has more than {MAX_HEADERS} headers")  # the parser makes 400 of it

    def on_headers_complete(self) -> None:
        self._in_head = self._head_begun = False
        if len(self.pipeline) >= MAX_PIPELINED:
            self.close()
            raise ValueError("too many requests come before the answer to another")
        self._close_after(None)
        self._waiting.stop_waiting(self)
        is_first = self.cycle is None or self.cycle.response_complete
        super().on_headers_complete()
        if is_first:
            self._answering = self.cycle

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0  # of the next request, which may come before the answer
        super().on_message_complete()
        if self.cycle and self.cycle.response_complete:
            self._wait()

    def on_response_complete(self) -> None:
        self._answering = self.pipeline[-1][0] if self.pipeline else self.cycle
        super().on_response_complete()
        if not self.cycle.response_complete:
            return  # the next request came before this answer
        if self._in_head:
            self._wait()
        else:
            self._close_after(LINGER_S)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(WRITE_S, self.close)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer:
            self._write_timer.cancel()
            self._write_timer = None

    def close(self) -> None:
        """Close the connection at once: what the client does not read would keep it open."""
        self.transport.abort()

    def _wait(self) -> None:
        """Wait for the next request, or for the rest of its head."""
        self._waiting.wait(self)
        self._close_after(HEAD_S if self._head_begun else IDLE_S)

    def _close_after(self, seconds: float | None) -> None:
        """Close the connection after so many seconds, and not as planned before."""
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.close) if seconds else None
