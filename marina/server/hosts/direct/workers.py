"""The workers of a version: so many as are wanted, started again when they end."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from handlers.worker.hosts.frames import Message
from handlers.worker.telemetry.metrics import READY_SECONDS
from handlers.worker.values import Json
from marina.server.hosts.direct.worker import Worker, WorkerLost
from marina.server.run.logs import DIED_MESSAGE

PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # before a worker is started again, while it does not become READY
METRICS_S = 1.0  # for a busy worker to give its counts
DESCRIBE_S = 60.0


class Slot:
    """A place for a worker.

    Attributes:
        number: of the place.
        worker: that is in it, from its start until it ends or has to go.
        task: keeps a worker in it.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: Worker | None = None
        self.task: asyncio.Task[None]


class Workers:
    """The workers of a version.

    Args:
        folder: the unpacked archive.
        environment: of workers.
        startup_s: for a worker to become READY.
        response_s: for a worker to answer.
        log: called with the number of a worker, and a line that it prints.
        count: called with what workers have counted.
        when_idle: called when a worker can take a batch.

    Attributes:
        target: how many there shall be.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        startup_s: float,
        response_s: float,
        log: Callable[[int, str], None],
        count: Callable[[list[Any]], None],
        when_idle: Callable[[], None],
    ) -> None:
        self._folder, self._environment = folder, environment
        self._startup_s, self._response_s = startup_s, response_s
        self._log, self._count, self._when_idle = log, count, when_idle
        self._numbers, self._turn = itertools.count(), itertools.count()
        self._slots: list[Slot] = []
        self._ending: set[asyncio.Task[None]] = set()
        self.target = 0

    @property
    def started(self) -> list[Worker]:
        """The workers that have been started, and do not have to go."""
        return [slot.worker for slot in self._slots if slot.worker]

    @property
    def ready(self) -> list[Worker]:
        """The workers that can answer."""
        return [worker for worker in self.started if worker.ready]

    @property
    def idle(self) -> list[Worker]:
        """The workers that can take a batch."""
        return [worker for worker in self.ready if not worker.busy]

    def scale(self, workers: int) -> None:
        """Have so many workers. Those that are too many end when they have answered their batch."""
        self.target = workers
        while len(self._slots) < workers:
            slot = Slot(next(self._numbers))
            slot.task = asyncio.create_task(self._keep(slot))
            self._slots.append(slot)
        # those that cannot answer yet are the first to go
        by_readiness = sorted(self._slots, key=lambda slot: bool(slot.worker and slot.worker.ready))
        for slot in by_readiness[: len(self._slots) - workers]:
            slot.task.cancel()
            self._slots.remove(slot)

    async def describe(self) -> Json:
        """The description that a worker gives; WorkerLost if none is READY."""
        ready = self.ready
        if not ready:
            raise WorkerLost("there is no worker that is READY")
        # each worker in turn: a caller that waits until all are idle hears of every one
        worker = ready[next(self._turn) % len(ready)]
        # a caller that is cancelled leaves the worker its call: half of an answer would be read with the next
        call = asyncio.create_task(worker.call(Message({"describe": True}), DESCRIBE_S))
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
        return (await asyncio.shield(call)).fields["description"]

    async def take_counts(self) -> None:
        """Pass on what workers have counted; one that is busy for long does so later."""
        for worker in self.ready:
            self._count_ready(worker)
            if worker.counting is None:
                worker.counting = asyncio.create_task(self._take_counts(worker))
        counting = [worker.counting for worker in self.ready if worker.counting]
        if counting:
            await asyncio.wait(counting, timeout=METRICS_S)

    async def close(self) -> None:
        """End all workers when they have answered their batches."""
        tasks = [slot.task for slot in self._slots]
        self.scale(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._ending:
            await asyncio.wait(self._ending)

    async def _keep(self, slot: Slot) -> None:
        """Keep a worker in a slot until this task is cancelled."""
        failures = 0
        while True:
            await asyncio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1
            start = Worker.start(self._folder, self._environment, lambda line: self._log(slot.number, line))
            starting = asyncio.create_task(start)
            try:
                slot.worker = await asyncio.shield(starting)
                await self._serve_with(slot.worker, slot.number)
                failures = 0
            except asyncio.CancelledError:
                self._start_ending(self._end(starting))
                raise
            except Exception as error:  # it may fail in any way, and is started again
                # its last lines, which say why, come into the log first
                await asyncio.wait([self._start_ending(self._end(starting, at_once=True))])
                self._log(slot.number, f"{DIED_MESSAGE} {error}")
            finally:
                slot.worker = None

    async def _serve_with(self, worker: Worker, number: int) -> None:
        """Let a worker serve until it ends; WorkerLost if it does not even become READY."""
        message = await worker.wait_ready(self._startup_s)
        self._count(message.fields.get("metrics", []))
        self._log(number, f"the worker is READY, pid {worker.pid}")
        self._when_idle()
        await worker.ended()
        self._log(number, DIED_MESSAGE)

    async def _end(self, starting: asyncio.Task[Worker], at_once: bool = False) -> None:
        """End a worker that may not even have started."""
        try:
            worker = await starting
        except Exception:
            return
        try:
            if at_once or not worker.ready:
                worker.kill()
            else:
                self._count_ready(worker)
                await self._take_counts(worker)
        finally:
            await worker.stop()

    async def _take_counts(self, worker: Worker) -> None:
        try:
            self._count((await worker.call(Message({"metrics": True}), self._response_s)).fields["metrics"])
        except WorkerLost:
            return
        finally:
            worker.counting = None

    def _count_ready(self, worker: Worker) -> None:
        """Count the seconds that a worker has been READY since they were counted last."""
        now = time.monotonic()
        self._count([[READY_SECONDS, [], now - worker.counted_at]])
        worker.counted_at = now

    def _start_ending(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """End a worker in a task of its own, which `close` waits for."""
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task
