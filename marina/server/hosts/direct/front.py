"""What comes in over HTTP: predictions, management and metrics, each on a port of its own (ASGI)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

from handlers.worker.answering.reply import RETRY_AFTER, Reply
from handlers.worker.hosts.urls import Urls, bears_token, refusal, unauthorized
from marina.server.hosts.direct.bodies import BODY_S, Bodies, ClientGone, NoMemory, Receive, SlowBody
from marina.server.hosts.direct.management import manage
from marina.server.hosts.direct.models import Models
from marina.server.run.state import Ports

DEAD_S = 330.0  # without a worker that is READY: then only a new process helps
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Front:
    """The application for all ports.

    Args:
        models: that answer.
        ports: the port of a connection says what it is for.
        tokens: of which requests must bring one; none if they need none.
        management_token: that management needs.
        pages: what GET answers on the inference port without a token, by path.
        names: of the server in headers `Host` and `Origin` of predictions and metrics; empty for any. Pages of other
            sites can give a name of their own to this machine, and send requests that need no token.

    Attributes:
        bodies: the memory of requests.
        urls: of the inference port; they know the tokens.
    """

    def __init__(
        self,
        models: Models,
        ports: Ports,
        tokens: Sequence[str],
        management_token: str,
        pages: Mapping[str, Reply],
        names: Collection[str] = (),
    ) -> None:
        self._models, self._ports, self._management_token = models, ports, management_token
        self._pages, self._names = pages, names
        self.urls = Urls(models.by_name, tokens, DEAD_S, models.execution_parameters, models.coming)
        self.bodies = Bodies()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        port = scope["server"][1]
        try:
            if port != self._ports.management and not self._is_named(scope):
                reply = refusal(403, "WrongHost", f"without tokens, use the name {' or '.join(self._names)}")
            elif port == self._ports.inference:
                reply = await self._predict(scope, receive)
            elif port == self._ports.management:
                reply = await self._manage(scope)
            else:
                reply = await self._metrics(scope)
        except ClientGone:
            return
        headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers += [(b"content-type", reply.media_type.encode()), (b"content-length", b"%d" % len(reply.body))]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def answer(
        self, method: str, path: str, headers: Mapping[str, str], read: Callable[[int], Awaitable[bytes]]
    ) -> Reply:
        """Answer a request to the inference port, and count the answer unless it is one to GET.

        Args:
            method, path: of the request.
            headers: with lower-case names.
            read: reads the body, up to a little more than so many bytes, into a share of the memory.
        """
        try:
            reply = await self.urls.answer(method, path, headers, read)
        except NoMemory:
            reply = refusal(503, "Overloaded", "bodies take all the memory that they may have", RETRY_AFTER)
        except SlowBody:
            closing = {"connection": "close"}
            reply = refusal(408, "RequestTimeout", f"the body did not come within {BODY_S:.0f} s", closing)
        if method != "GET":  # as probes are, which get 503 while a server starts
            self._models.counts.answered(reply.status)
        return reply

    async def _predict(self, scope: dict[str, Any], receive: Receive) -> Reply:
        """The reply to a request on the inference port; ClientGone if the client leaves before it is there."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method == "GET" and scope["path"] in self._pages:
            return self._pages[scope["path"]]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with _leaving(receive) as watch, self.bodies.share() as share:

            async def read(limit: int) -> bytes:
                body = await share.read(receive, int(headers.get("content-length") or 0), limit)
                watch()  # the client sends nothing more: what comes now is that it leaves
                return body

            return await self.answer(method, scope["path"], headers, read)

    def _is_named(self, scope: dict[str, Any]) -> bool:
        """Whether a request calls the server by its names, and comes from no page of another."""
        if not self._names:
            return True
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"//127.0.0.1").decode("latin-1").partition("//")[2]
        hosts = (headers.get(b"host", b"").decode("latin-1"), origin)
        return all(host.lower().partition(":")[0] in self._names for host in hosts)

    async def _manage(self, scope: dict[str, Any]) -> Reply:
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        if not bears_token(authorization, [self._management_token]):
            return unauthorized("the management token is needed: marina token management")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return await manage(self._models, scope["method"], scope["path"], query)

    async def _metrics(self, scope: dict[str, Any]) -> Reply:
        if scope["path"] != "/metrics":
            return refusal(404, "NotFound", "there is /metrics")
        versions = [version for model in self._models.by_name.values() for version in model.versions.values()]
        await asyncio.gather(*(version.workers.take_counts() for version in versions))
        page = self._models.counts.page([(version.name, version.version, version.traffic) for version in versions])
        return Reply(200, page.encode(), {}, "text/plain; version=0.0.4; charset=utf-8")


@contextmanager
def _leaving(receive: Receive) -> Iterator[Callable[[], None]]:
    """A context that ends with ClientGone when the client leaves after the call of what the context gives."""
    answering = asyncio.current_task()
    watches: list[asyncio.Task[None]] = []

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if answering:
            answering.cancel()

    try:
        yield lambda: watches.append(asyncio.create_task(watch()))
    except asyncio.CancelledError:
        if any(watching.done() for watching in watches):
            raise ClientGone from None
        raise
    finally:
        for watching in watches:
            watching.cancel()
