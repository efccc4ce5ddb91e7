"""One archive that is served: its queue, and workers that are started again when they end."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from handlers.worker.errors import RequestError
from handlers.worker.hosts.frames import Message
from handlers.worker.hosts.urls import refusal
from handlers.worker.reply import RETRY_AFTER, Reply, error_reply
from handlers.worker.telemetry.metrics import READY_SECONDS
from handlers.worker.values import Json
from marina.server.direct.metrics import Traffic
from marina.server.direct.queue import Queue, Request
from marina.server.direct.worker import Worker, WorkerLost
from marina.server.torchserve.readiness import DIED_MESSAGE

PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # before a worker is started again, while it does not become READY
METRICS_S = 1.0  # for a busy worker to give its counts
DESCRIBE_S = 60.0
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
        self._environment, self._log, self._count = environment, log, count
        config = config or {}
        deadline_s = config["handler"]["deadline_ms"] / 1000 if config else 0.0
        self.batch_size = int(config.get("batchSize", 1))
        self.target = int(config.get("minWorkers", 0))
        self._startup_s = float(config.get("startupTimeout", 120))
        self._response_s = float(config.get("responseTimeout", 120))
        self._queue = Queue(self.batch_size, int(config.get("jobQueueSize", 0)), deadline_s)
        self._numbers = itertools.count()
        self._slots: list[asyncio.Task[None]] = []
        self._serving: set[Any] = set()  # the slots whose worker is READY
        self._idle: list[Worker] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._counting: dict[Worker, asyncio.Task[None]] = {}
        self._counted: dict[Worker, float] = {}  # when the seconds were counted that a worker has been READY
        self.workers: list[Worker] = []
        self.traffic = Traffic()

    @property
    def ready(self) -> list[Worker]:
        """The workers that can answer."""
        return [worker for worker in self.workers if worker.ready]

    @property
    def pending(self) -> int:
        """The requests that wait and that are computed."""
        return self._queue.waiting + self._queue.computing

    async def reply(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """The reply to a request; a caller that is cancelled has left."""
        now, future = time.monotonic(), asyncio.get_running_loop().create_future()
        # workers need no tokens
        request = Request(body, {k: v for k, v in headers.items() if k != "authorization"}, now, future)
        if not self.ready and not self.target:
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
        self.traffic.count(time.monotonic() - now)
        return reply

    def scale(self, workers: int) -> None:
        """Have so many workers. Those that are too many end when they have answered their batch."""
        self.target = workers
        while len(self._slots) < workers:
            self._slots.append(asyncio.create_task(self._keep(next(self._numbers))))
        # those that do not serve yet are the first to go
        surplus = sorted(self._slots, key=self._serving.__contains__)[: len(self._slots) - workers]
        for slot in surplus:
            slot.cancel()
            self._slots.remove(slot)

    async def describe(self) -> Json:
        """The description that a worker gives; WorkerLost if none is READY."""
        if not self.ready:
            raise WorkerLost(f"{self.name} has no worker that is READY")
        worker = self.ready[0]
        # each worker in turn: a caller that waits until all are idle hears of every one
        self.workers.remove(worker)
        self.workers.append(worker)
        return (await worker.call(Message({"describe": True}), DESCRIBE_S)).fields["description"]

    async def take_counts(self) -> None:
        """Pass on what its workers have counted; a worker that is busy for long does so later."""
        for worker in self.ready:
            self._count_ready(worker)
            if worker not in self._counting:
                self._counting[worker] = asyncio.create_task(self._take_counts(worker))
        if self._counting:
            await asyncio.wait(self._counting.values(), timeout=METRICS_S)

    async def close(self) -> None:
        """End all workers when they have answered their batches; requests that still wait get 503."""
        slots = list(self._slots)
        self.scale(0)
        await asyncio.gather(*slots, return_exceptions=True)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for request in self._queue.expire(math.inf):
            self._answer(request, refusal(503, "Stopping", f"{self.name} has been stopped", RETRY_AFTER))
        if self._sweep:
            self._sweep.cancel()

    async def _keep(self, number: int) -> None:
        """Keep a worker running until this task is cancelled."""
        failures = 0
        while True:
            await asyncio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1
            start = Worker.start(self.folder, self._environment, lambda line: self._log(number, line))
            starting = asyncio.create_task(start)
            try:
                worker = await asyncio.shield(starting)
                await self._serve_with(worker, number)
                failures = 0
            except asyncio.CancelledError:
                self._start_task(self._end(starting))
                raise
            except Exception as error:  # it may fail in any way, and is started again
                self._log(number, f"{DIED_MESSAGE} {error}")
                self._start_task(self._end(starting, at_once=True))

    async def _serve_with(self, worker: Worker, number: int) -> None:
        """Let a worker serve until it ends; WorkerLost if it does not even become READY."""
        slot = asyncio.current_task()
        self.workers.append(worker)
        try:
            message = await worker.wait_ready(self._startup_s)
            self._count(message.fields.get("metrics", []))
            self._counted[worker] = time.monotonic()
            self._serving.add(slot)
            self._log(number, f"the worker is READY, pid {worker.pid}")
            self._idle.append(worker)
            self._hand_out()
            await worker.ended()
            self._log(number, DIED_MESSAGE)
        finally:
            self._serving.discard(slot)
            self._retire(worker)

    async def _end(self, starting: asyncio.Task[Worker], at_once: bool = False) -> None:
        """End a worker that may not even have started."""
        try:
            worker = await starting
        except Exception:
            return
        self._retire(worker)
        try:
            if at_once or not worker.ready:
                worker.kill()
            else:
                self._count_ready(worker)
                await self._take_counts(worker)
        finally:
            await worker.stop()
            self._counted.pop(worker, None)

    async def _take_counts(self, worker: Worker) -> None:
        try:
            self._count((await worker.call(Message({"metrics": True}), self._response_s)).fields["metrics"])
        except WorkerLost:
            return
        finally:
            self._counting.pop(worker, None)

    def _count_ready(self, worker: Worker) -> None:
        """Count the seconds that a worker has been READY since they were counted last."""
        now = time.monotonic()
        self._count([[READY_SECONDS, [], now - self._counted.get(worker, now)]])
        self._counted[worker] = now

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that goes on by itself, and that `close` waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _retire(self, worker: Worker) -> None:
        """No more requests for a worker."""
        for workers in (self._idle, self.workers):
            if worker in workers:
                workers.remove(worker)

    def _hand_out(self) -> None:
        """Give what waits to idle workers."""
        self._idle = [worker for worker in self._idle if worker.ready]
        while self._idle:
            batch, expired = self._queue.take(time.monotonic(), len(self._idle))
            self._expire(expired)
            if not batch:
                return
            self._start_task(self._compute(self._idle.pop(), batch))

    def _start_sweep(self) -> None:
        """Look for late requests soon, unless that is planned already."""
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_expired)

    async def _compute(self, worker: Worker, batch: list[Request]) -> None:
        """Let a worker compute a batch, and answer its requests."""
        self.traffic.waited(sum(time.monotonic() - request.arrived for request in batch))
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
        if worker.ready and worker in self.workers:
            self._idle.append(worker)
            self._hand_out()

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
