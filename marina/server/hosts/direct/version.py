"""One archive that is served: the queue of its requests, and the workers that take them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from handlers.worker.answering.reply import RETRY_AFTER, Reply, error_reply
from handlers.worker.errors import RequestError
from handlers.worker.hosts.frames import Message
from handlers.worker.hosts.urls import BODY_BYTES, refusal
from marina.server.hosts.direct.metrics import Traffic
from marina.server.hosts.direct.queue import Priority, Queue, Request
from marina.server.hosts.direct.worker import Worker
from marina.server.hosts.direct.workers import Workers

PRIORITY_HEADER = "x-marina-priority"  # bulk, or interactive
SWEEP_S = 0.5  # between two looks for requests that have waited too long


class Version:
    """A version of a model.

    Args:
        name, version: of the model, and its archive's version.
        folder: the unpacked archive.
        config: its model-config.yaml; None for an archive without workers.
        environment: of workers.
        log: called with the number of a worker, and a line that it prints.
        count: called with what workers have counted.

    Attributes:
        config: its model-config.yaml; empty for an archive without workers.
        body_bytes: the largest body that one of its models takes.
        workers: of the version.
        traffic: what has gone through its queue.
    """

    def __init__(
        self,
        name: str,
        version: str,
        folder: Path,
        config: Mapping[str, Any] | None,
        environment: Mapping[str, str],
        log: Callable[[int, str], None],
        count: Callable[[list[Any]], None],
    ) -> None:
        self.name, self.version, self.folder = name, version, folder
        self.config = config = dict(config or {})
        deadline_s = config["handler"]["deadline_ms"] / 1000 if config else 0.0
        members = config["handler"]["members"].values() if config else ()
        self.body_bytes = max((int(member["max_body_bytes"]) for member in members), default=BODY_BYTES)
        self.batch_size = int(config.get("batchSize", 1))
        self._count = count
        self._response_s = float(config.get("responseTimeout", 120))
        self._queue = Queue(self.batch_size, int(config.get("jobQueueSize", 0)), deadline_s)
        self._computing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        startup_s = float(config.get("startupTimeout", 120))
        self.workers = Workers(folder, environment, startup_s, self._response_s, log, count, self._hand_out)
        self.traffic = Traffic()

    @property
    def is_ready(self) -> bool:
        """Whether it can answer."""
        return bool(self.workers.ready)

    @property
    def pending(self) -> int:
        """The requests that wait and that are computed."""
        return self._queue.waiting + self._queue.computing

    async def reply(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """The reply to a request; a caller that is cancelled has left."""
        now, future = time.monotonic(), asyncio.get_running_loop().create_future()
        priority = Priority.BULK if headers.get(PRIORITY_HEADER) == Priority.BULK.value else Priority.INTERACTIVE
        # workers need no tokens
        request = Request(body, {k: v for k, v in headers.items() if k != "authorization"}, now, future, priority)
        if not self.workers.target and not self.workers.ready:
            return refusal(503, "Stopping", f"{self.name} gets no new requests now", RETRY_AFTER)
        if not self._queue.offer(request):
            return error_reply(RequestError("Overloaded", f"the queue of {self.name} is full"))
        self._hand_out()
        self._start_sweep()
        try:
            reply: Reply = await future
        except asyncio.CancelledError:
            self._queue.leave(request)
            raise
        self.traffic.requests += 1
        self.traffic.seconds += time.monotonic() - now
        return reply

    async def close(self) -> None:
        """End all workers when they have answered their batches; requests that still wait get 503."""
        await self.workers.close()
        while self._computing:
            await asyncio.wait(self._computing)
        for request in self._queue.expire(math.inf):
            self._answer(request, refusal(503, "Stopping", f"{self.name} has been stopped", RETRY_AFTER))
        if self._sweep:
            self._sweep.cancel()

    def _hand_out(self) -> None:
        """Give what waits to idle workers."""
        while idle := self.workers.idle:
            batch, expired = self._queue.take(time.monotonic(), len(idle))
            self._expire(expired)
            if not batch:
                return
            idle[0].busy = True
            task = asyncio.create_task(self._compute(idle[0], batch))
            self._computing.add(task)
            task.add_done_callback(self._computing.discard)

    async def _compute(self, worker: Worker, batch: list[Request]) -> None:
        """Let a worker compute a batch, and answer its requests."""
        self.traffic.waited_seconds += sum(time.monotonic() - request.arrived for request in batch)
        message = Message({"headers": [request.headers for request in batch]}, [request.body for request in batch])
        try:
            answer = await worker.call(message, self._response_s)
            replies = [
                Reply(status, body, headers, media_type)
                for (status, headers, media_type), body in zip(answer.fields["replies"], answer.bodies, strict=True)
            ]
            by_request = list(zip(batch, replies, strict=True))
        except Exception:  # a worker that does not answer these very requests is of no use
            worker.kill()
            for request in self._queue.lost(batch):
                self._answer(request, refusal(503, "WorkerDied", "the worker ended with the request", RETRY_AFTER))
            self._hand_out()
            self._start_sweep()
            return
        self._count(answer.fields.get("metrics", []))
        present = set(map(id, self._queue.answered(batch)))
        for request, reply in by_request:
            if id(request) in present:
                self._answer(request, reply)
        worker.busy = False
        self._hand_out()

    def _start_sweep(self) -> None:
        """Look for late requests soon, unless that is planned already."""
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_expired)

    def _sweep_expired(self) -> None:
        """Refuse the requests that have waited too long, while all workers are busy or none is READY."""
        self._sweep = None
        self._expire(self._queue.expire(time.monotonic()))
        if self._queue.waiting:
            self._start_sweep()

    def _expire(self, requests: list[Request]) -> None:
        for request in requests:
            self._answer(request, error_reply(RequestError("TooLate", "the request has waited past its deadline")))

    def _answer(self, request: Request, reply: Reply) -> None:
        if not request.reply.done():
            request.reply.set_result(reply)
