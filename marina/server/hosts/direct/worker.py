"""One worker process of the host `direct`, and calls to it over a socket."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from handlers.worker.hosts.frames import LENGTH_BYTES, PROTOCOL, Message, head_length, read_head

MODULE = "handlers.worker.hosts.direct"
END_S = 10.0  # for a worker that is idle to end
LOG_S = 2.0  # for the last lines of a worker that has ended


class WorkerLost(Exception):
    """The worker has ended, or did not answer in time."""


class Worker:
    """A worker process. `start` makes one.

    Attributes:
        pid: of the process.
        ready: whether it has proved itself on the golden rows of its models.
        busy: whether it has a batch.
        counting: asks it for what it has counted.
        counted_at: until when the seconds are counted that it has been READY.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, reader: Any, writer: Any, logging: asyncio.Task[None]
    ) -> None:
        self._process, self._reader, self._writer, self._logging = process, reader, writer, logging
        self._one_call = asyncio.Lock()
        self.pid, self.ready, self.busy = process.pid, False, False
        self.counting: asyncio.Task[None] | None = None
        self.counted_at = time.monotonic()

    @classmethod
    async def start(cls, folder: Path, environment: Mapping[str, str], log: Callable[[str], None]) -> Worker:
        """Start the worker of an unpacked archive, with the code in it.

        Args:
            folder: of the archive.
            environment: of the process.
            log: called with each line that it prints.
        """
        here, there = socket.socketpair()
        with there:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", MODULE, str(there.fileno())),
                cwd=folder,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=[there.fileno()],
            )
        reader, writer = await asyncio.open_connection(sock=here)
        return cls(process, reader, writer, asyncio.create_task(_pass_on(process.stdout, log)))

    async def wait_ready(self, timeout_s: float) -> Message:
        """Wait until it can answer; returns its first message. WorkerLost if it ends first, or speaks otherwise."""
        message = await self._within(timeout_s, self._receive())
        if message.fields.get("protocol") != PROTOCOL:
            raise WorkerLost("the archive is of another release of Marina; pack it again")
        self.ready, self.counted_at = True, time.monotonic()
        return message

    async def call(self, message: Message, timeout_s: float) -> Message:
        """The answer to a message; one at a time. WorkerLost if there is none in so many seconds."""
        async with self._one_call:
            return await self._within(timeout_s, self._exchange(message))

    async def ended(self) -> None:
        """Wait until the process has ended, and its last line is in the log."""
        await self._process.wait()
        self.ready = False
        self._writer.close()
        await asyncio.wait([self._logging], timeout=LOG_S)  # a child of it may hold its output open
        self._logging.cancel()

    def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> None:
        """Let the process answer what it has, and end by itself; or end it."""
        async with self._one_call:
            self._writer.close()
        try:
            await asyncio.wait_for(self.ended(), END_S)
        except asyncio.TimeoutError:
            self.kill()
            await self.ended()

    async def _within(self, timeout_s: float, answer: Awaitable[Message]) -> Message:
        # a worker that is late is ended, and that ends the wait
        timer = asyncio.get_running_loop().call_later(timeout_s, self.kill)
        try:
            return await answer
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ready = False
            late = asyncio.get_running_loop().time() >= timer.when()
            raise WorkerLost(f"no answer within {timeout_s:.0f} s" if late else "the worker ended") from None
        except asyncio.CancelledError:
            self.kill()  # else the next call would read this answer
            raise
        finally:
            timer.cancel()

    async def _exchange(self, message: Message) -> Message:
        self._writer.write(message.as_bytes())
        return await self._receive()

    async def _receive(self) -> Message:
        read = self._reader.readexactly
        fields, sizes = read_head(await read(head_length(await read(LENGTH_BYTES))))
        return Message(fields, [await read(size) for size in sizes])


async def _pass_on(output: Any, log: Callable[[str], None]) -> None:
    """Log the lines that a process prints; the rest of a line that is too long is left out."""
    while True:
        try:
            line = await output.readline()
        except ValueError:
            continue
        if not line:
            return
        log(line.decode(errors="replace").rstrip())
