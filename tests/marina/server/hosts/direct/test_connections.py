"""Connections over HTTP: which of them are closed, and when."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn

from marina.server.hosts.direct import connections
from marina.server.hosts.direct.connections import Connection, Connections

ANSWER_S = 0.3
ended: list[str] = []  # requests whose clients have left
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the path, later if it is /slow, and without reading the body if it is /refused."""
    if scope["path"] == "/until-it-leaves":
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append(scope["path"])
        return
    if scope["path"] != "/refused":
        while (await receive()).get("more_body"):
            pass
    await asyncio.sleep(ANSWER_S if scope["path"] == "/slow" else 0)
    body = b"x" * 5_000_000 if scope["path"] == "/large" else scope["path"].encode()
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(limit: int = 100) -> AsyncIterator[Connect]:
    """A server; gives what opens a connection to it."""
    writers: list[asyncio.StreamWriter] = []
    http: Any = partial(Connection, Connections(limit))
    server = uvicorn.Server(uvicorn.Config(app, http=http, ws="none", lifespan="off", log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server._serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writers.append(writer)
            return reader, writer

        try:
            yield connect
        finally:
            for writer in writers:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
            server.should_exit = True
            await serving


async def is_closed(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the server closes the connection within so many seconds."""
    try:
        return await asyncio.wait_for(reader.read(), seconds) is not None
    except (asyncio.TimeoutError, ConnectionError) as error:
        return isinstance(error, ConnectionError)


def test_a_client_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_S", 0.3)

    async def run() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(20):
                writer.write(GET % b"/large")
                await asyncio.sleep(0.05)
            reading = await connect()
            reading[1].write(GET % b"/a")
            await reading[0].readuntil(b"/a")
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await is_closed(reader, 2)

    asyncio.run(run())


def test_requests_that_come_before_an_answer_are_few_and_end_with_the_client() -> None:
    async def run() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            writer.write((GET % b"/slow") * 3 + GET % b"/a")
            assert (await reader.readuntil(b"/a")).count(b"HTTP/1.1 200") == 4
            writer.write(GET % b"/slow" + (GET % b"/a") * 1000)
            assert await is_closed(reader, 2)
            ended.clear()
            _, writer = await connect()
            writer.write(GET % b"/until-it-leaves" + GET % b"/a")
            await asyncio.sleep(0.1)
            writer.close()
            await asyncio.sleep(0.1)
            assert ended == ["/until-it-leaves"]

    asyncio.run(run())


GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    async def run() -> None:
        async with listening(limit=3) as connect:
            first, second, third = [await connect() for _ in range(3)]
            first[1].write(GET % b"/slow")  # it is answered, and does not wait
            second[1].write(b"GET /")  # it sends its head, which is waiting too
            await asyncio.sleep(0.05)
            fourth = await connect()
            assert await is_closed(second[0], 1)
            fourth[1].write(GET % b"/b")
            assert (await fourth[0].readuntil(b"/b")).startswith(b"HTTP/1.1 200")
            assert (await first[0].readuntil(b"/slow")).startswith(b"HTTP/1.1 200")
            assert not await is_closed(third[0], 0.1)

    asyncio.run(run())


def test_a_head_that_does_not_come_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)

    async def run() -> None:
        async with listening() as connect:
            idle, slow, busy = [await connect() for _ in range(3)]
            busy[1].write(GET % b"/slow")
            await asyncio.sleep(0.05)
            busy[1].write(b"GET /next")  # a part of the next head comes before the answer
            for byte in b"GET /a HTTP":
                slow[1].write(bytes([byte]))
                await asyncio.sleep(0.03)
            assert await is_closed(slow[0], 0.3)
            assert (await busy[0].readuntil(b"/slow")).startswith(b"HTTP/1.1 200")
            assert await is_closed(busy[0], 0.5)
            assert not await is_closed(idle[0], 0.1)

    asyncio.run(run())


def test_connections_without_requests_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.2)

    async def run() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            for _ in range(3):
                await asyncio.sleep(0.1)
                writer.write(GET % b"/a")
                await reader.readuntil(b"/a")
            writer.write(GET % b"/slow")  # longer than a connection may wait
            await reader.readuntil(b"/slow")
            assert await is_closed(reader, 0.5)

    asyncio.run(run())


def test_the_rest_of_a_body_that_nobody_needs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 0.2)

    async def run() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
            await reader.readuntil(b"/refused")
            writer.write(b"67890" + GET % b"/a")  # a client that goes on is answered
            await reader.readuntil(b"/a")
            writer.write(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
            await reader.readuntil(b"/refused")
            assert await is_closed(reader, 0.5)

    asyncio.run(run())


@pytest.mark.parametrize(
    "first", [b"", GET % b"/slow", b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"]
)
def test_a_head_has_a_limit_also_behind_another_request(first: bytes) -> None:
    async def run() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            writer.write(first)
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(b"GET /a HTTP/1.1\r\nA: ")
            sent = 0
            try:
                while sent < 50_000_000:
                    writer.write(b"x" * 65_536)
                    sent += 65_536
                    await asyncio.wait_for(writer.drain(), 2)
                    await asyncio.sleep(0)
                    if reader.at_eof() or writer.is_closing():
                        break
            except (ConnectionError, asyncio.TimeoutError):
                pass  # it is closed, or not read before the answer to the other
            assert sent < 20_000_000

    asyncio.run(run())
