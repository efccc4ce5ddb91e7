"""The bodies of requests: how many bytes of them there are, so that they never fill the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

ALL_BODIES_BYTES = 64 << 20
FIRST_BYTES = 65_536  # of a body, before it comes
BODY_S = 60.0  # for a client to send its body
Receive = Callable[[], Awaitable[dict[str, Any]]]


class ClientGone(Exception):
    """The client has closed its connection."""


class SlowBody(Exception):
    """The client does not send its body in time."""


class NoMemory(Exception):
    """There are too many bytes of bodies."""


class Bodies:
    """The memory of all bodies that are received, wait, or are computed.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int = ALL_BODIES_BYTES) -> None:
        self._left = limit

    def share(self) -> Share:
        """The memory of a request, which is given back when the context ends."""
        return Share(self)

    def take(self, size: int) -> None:
        """Take so many bytes, or give them back if negative; NoMemory if there are not so many."""
        if size > self._left:
            raise NoMemory
        self._left -= size


class Share:
    """The part of the memory that a request has."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._size = bodies, 0

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bodies.take(-self._size)

    def grow(self, size: int) -> None:
        """Have at least so many bytes; NoMemory if there are not so many."""
        if size > self._size:
            self._bodies.take(size - self._size)
            self._size = size

    def shrink(self, size: int) -> None:
        """Have no more than so many bytes."""
        self._bodies.take(min(0, size - self._size))
        self._size = min(size, self._size)

    async def read(self, receive: Receive, length: int, limit: int) -> bytes:
        """The body of a request, up to a little more than the largest that is allowed.

        Args:
            receive: the next message of ASGI.
            length: as the client says; 0 if it does not.
            limit: bytes of the largest body that is allowed.

        Raises:
            ClientGone: the client has closed its connection.
            SlowBody: the body does not come.
            NoMemory: there are too many bytes of bodies.
        """
        self.grow(min(length, FIRST_BYTES))
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task
        timer = loop.call_later(BODY_S, task.cancel)  # wait_for would start a task for each request
        try:
            return await self._read_parts(receive, limit)
        except asyncio.CancelledError:
            if loop.time() >= timer.when():
                raise SlowBody from None
            raise
        finally:
            timer.cancel()

    async def _read_parts(self, receive: Receive, limit: int) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self.grow(size)
            if not message.get("more_body") or size > limit:
                return b"".join(parts)
