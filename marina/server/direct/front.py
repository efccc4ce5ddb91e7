"""What comes in over HTTP: predictions, management and metrics, each on a port of its own (ASGI)."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl

from handlers.worker.hosts.urls import BODY_BYTES, Urls, refusal
from handlers.worker.reply import Reply
from marina.server.direct.management import manage
from marina.server.direct.models import Models
from marina.server.state import Ports

BODY_S = 60.0  # for a client to send its body
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ClientGone(Exception):
    """The client has closed its connection."""


class SlowBody(Exception):
    """The client does not send its body in time."""


class Front:
    """The application for all ports.

    Args:
        models: that answer.
        ports: the port of a connection says what it is for.
        tokens: of predictions, and of management.
    """

    def __init__(self, models: Models, ports: Ports, tokens: dict[str, str]) -> None:
        self._models, self._ports, self._tokens = models, ports, tokens
        self._urls = Urls(models.by_name, [tokens["inference"]])

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        port = scope["server"][1]
        try:
            if port == self._ports.inference:
                reply = await self._predict(scope, receive)
                self._models.counts.answered(reply.status)
            elif port == self._ports.management:
                reply = await _while_connected(self._manage(scope), receive)
            else:
                reply = await self._metrics(scope)
        except ClientGone:
            return
        headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers += [(b"content-type", reply.media_type.encode()), (b"content-length", b"%d" % len(reply.body))]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _predict(self, scope: dict[str, Any], receive: Receive) -> Reply:
        """The reply to a request for a prediction; ClientGone if the client leaves before it is there."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        watches: list[asyncio.Task[None]] = []

        async def body() -> bytes:
            content = await _read(receive)
            # the client sends nothing more: what comes now is that it leaves
            watches.append(_watch(receive))
            return content

        try:
            return await self._urls.answer(scope["method"], scope["path"], headers, body)
        except SlowBody:
            closing = {"connection": "close"}
            return refusal(408, "RequestTimeout", f"the body did not come within {BODY_S:.0f} s", closing)
        except asyncio.CancelledError:
            if any(watch.done() for watch in watches):
                raise ClientGone from None
            raise
        finally:
            for watch in watches:
                watch.cancel()

    async def _manage(self, scope: dict[str, Any]) -> Reply:
        sent = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(sent, f"Bearer {self._tokens['management']}".encode()):
            needed = {"www-authenticate": "Bearer"}
            return refusal(
                401, "InvalidTokenException", "the management token is needed: marina token management", needed
            )
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return await manage(self._models, scope["method"], scope["path"], query)

    async def _metrics(self, scope: dict[str, Any]) -> Reply:
        if scope["path"] != "/metrics":
            return refusal(404, "NotFound", "there is /metrics")
        versions = [version for model in self._models.by_name.values() for version in model.versions.values()]
        await asyncio.gather(*(version.take_counts() for version in versions))
        page = self._models.counts.page([(version.name, version.version, version.traffic) for version in versions])
        return Reply(200, page.encode(), {}, "text/plain; version=0.0.4; charset=utf-8")


async def _read(receive: Receive) -> bytes:
    """The body of a request, up to a little more than the largest that is allowed.

    Raises:
        ClientGone: the client has closed its connection.
        SlowBody: the body does not come.
    """
    parts, size = [], 0

    async def read_parts() -> bytes:
        nonlocal size
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body") or size > BODY_BYTES:
                return b"".join(parts)

    try:
        return await asyncio.wait_for(read_parts(), BODY_S)
    except asyncio.TimeoutError:
        raise SlowBody from None


async def _while_connected(answer: Coroutine[Any, Any, Reply], receive: Receive) -> Reply:
    """The answer to a request whose body is not read; ClientGone if the client leaves first, which ends the work."""
    watch = _watch(receive)
    try:
        return await answer
    except asyncio.CancelledError:
        if watch.done():
            raise ClientGone from None
        raise
    finally:
        watch.cancel()


def _watch(receive: Receive) -> asyncio.Task[None]:
    """Cancel the present task when its client leaves."""
    answering = asyncio.current_task()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if answering:
            answering.cancel()

    return asyncio.create_task(watch())
