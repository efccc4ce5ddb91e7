"""The host `direct` in a simulation with virtual time: python -m tests.marina.server.hosts.direct.simulated SEED

Everything but the worker processes is the real thing. Requests arrive, clients leave, workers die, hang, and start
again, the model is scaled and upgraded, and the server ends; what happens depends on the seed alone.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import selectors
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from handlers.worker.answering.reply import Reply
from handlers.worker.hosts.frames import Message
from marina.server.hosts.direct.models import Models, ServedModel
from marina.server.hosts.direct.version import PRIORITY_HEADER, Version
from marina.server.hosts.direct.worker import WorkerLost

DEADLINE_S, RESPONSE_S, CAPACITY = 0.5, 2.0, 20
END_S = 60.0  # of virtual time, for the server to end
TRY = "x-number"  # the number of a request


class VirtualSelector(selectors.SelectSelector):
    """A selector in which waiting takes no time, but moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing will ever happen again"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with the clock of its selector."""

    def __init__(self) -> None:
        self.clock = VirtualSelector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


class World:
    """What a simulation knows: its dice, when requests came, whose clients have left, and workers that run."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.arrived: dict[str, float] = {}
        self.left: set[str] = set()
        self.computed: Counter[str] = Counter()
        self.running: set[FakeWorker] = set()
        self.pids = itertools.count(1)


class FakeWorker:
    """A worker without a process."""

    world: World

    def __init__(self) -> None:
        self.pid, self.ready, self.busy = next(self.world.pids), False, False
        self.counting: Any = None
        self.counted_at = 0.0
        self._dead = asyncio.Event()
        self._calling = asyncio.Lock()
        self.world.running.add(self)

    @classmethod
    async def start(cls, *_: Any) -> FakeWorker:
        await asyncio.sleep(cls.world.dice.uniform(0, 0.2))
        if cls.world.dice.random() < 0.1:
            raise OSError("no process can be started")
        return cls()

    async def wait_ready(self, timeout_s: float) -> Message:
        await self._alive_for(self.world.dice.uniform(0.1, 2))
        if self.world.dice.random() < 0.1:
            self.kill()
            raise WorkerLost("it proved itself wrong")
        self.ready = True
        return Message({})

    async def call(self, message: Message, timeout_s: float) -> Message:
        async with self._calling:
            if "headers" not in message.fields:
                await self._alive_for(0.001)
                return Message({"metrics": [], "description": {"pid": self.pid}})
            await self._compute(message, timeout_s)
            return Message({"replies": [[200, {}, "text/plain"]] * len(message.bodies)}, message.bodies)

    async def _compute(self, message: Message, timeout_s: float) -> None:
        world, now = self.world, asyncio.get_running_loop().time()
        for headers in message.fields["headers"]:
            number = headers[TRY]
            world.computed[number] += 1
            assert number not in world.left, f"{number} was computed after its client had left"
            assert now - world.arrived[number] <= DEADLINE_S, f"{number} was computed after its deadline"
            assert world.computed[number] <= 2, f"{number} was computed a third time"
        chance = world.dice.random()
        if chance < 0.02:
            await asyncio.wait([asyncio.ensure_future(self._dead.wait())], timeout=timeout_s)
            self.kill()  # it hangs
        elif chance < 0.05 or any(body.startswith(b"poison") for body in message.bodies):
            self.kill()
        await self._alive_for(world.dice.expovariate(1 / 0.02))

    async def _alive_for(self, seconds: float) -> None:
        if not self._dead.is_set():
            await asyncio.wait([asyncio.ensure_future(self._dead.wait())], timeout=seconds)
        if self._dead.is_set():
            self.ready = False
            raise WorkerLost("the worker ended")

    async def ended(self) -> None:
        await self._dead.wait()
        self.ready = False
        self.world.running.discard(self)

    def kill(self) -> None:
        self._dead.set()

    async def stop(self) -> None:
        async with self._calling:
            self.kill()
        await self.ended()


async def client(world: World, model: ServedModel, number: str) -> tuple[str, Reply | None]:
    """Send a request; returns its number, and the reply or None if the client left first."""
    body = (f"poison-{number}" if world.dice.random() < 0.01 else number).encode()
    headers = {TRY: number, PRIORITY_HEADER: world.dice.choice(["bulk", "interactive", "interactive"])}
    world.arrived[number] = asyncio.get_running_loop().time()
    answering = asyncio.ensure_future(model.reply(body, headers, None))
    patience = world.dice.uniform(0, 0.3) if world.dice.random() < 0.15 else 60.0
    done, _ = await asyncio.wait([answering], timeout=patience)
    if not done:
        assert patience < 60, f"{number} was not answered"
        world.left.add(number)
        answering.cancel()
        return number, None
    reply = answering.result()
    if reply.status == 200:
        assert reply.body == body, f"{number} got the answer of another"
    else:
        assert reply.status == 503 and json.loads(reply.body)["type"], reply
    return number, reply


async def run(world: World) -> Counter[int]:
    """Let things happen; returns how often each status was answered."""
    config = {
        "minWorkers": 2,
        "batchSize": world.dice.choice([1, 4, 16]),
        "jobQueueSize": CAPACITY,
        "responseTimeout": RESPONSE_S,
        "startupTimeout": 10,
        "handler": {"deadline_ms": DEADLINE_S * 1000, "members": {"m": {"max_body_bytes": 100}}},
    }

    def version(number: str) -> Version:
        made = Version("m", number, Path("nowhere"), config, {}, lambda *_: None, lambda _: None)
        made.workers.scale(world.dice.choice([1, 2, 3]))
        return made

    models = Models(Path("nowhere"), Path("nowhere"), {}, lambda _: None)
    model = models.by_name["m"] = ServedModel("m", version("1"))
    clients, rate = [], world.dice.choice([5, 20, 60])
    for number in range(150):
        clients.append(asyncio.ensure_future(client(world, model, str(number))))
        await asyncio.sleep(world.dice.expovariate(rate))
        chance = world.dice.random()
        if chance < 0.02:
            model.version(None).workers.scale(world.dice.choice([0, 1, 2, 2, 4]))
        elif chance < 0.03 and world.running:
            world.dice.choice(sorted(world.running, key=lambda worker: worker.pid)).kill()
        elif chance < 0.04:
            old, new = model.default, str(int(model.default) + 1)
            model.versions[new] = version(new)
            model.default = new
            clients.append(asyncio.ensure_future(_unregister(models, old)))
        for served in model.versions.values():
            assert served._queue.waiting <= 2 * CAPACITY
    if world.dice.random() < 0.5:
        await asyncio.wait_for(models.close(), END_S)
    answers = await asyncio.wait_for(asyncio.gather(*clients), 120)
    await asyncio.wait_for(models.close(), END_S)
    assert not world.running, "a worker runs on"
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()]
    waiting_for_death = [task for task in left if "Event.wait" in repr(task.get_coro())]
    assert len(left) == len(waiting_for_death), left
    return Counter(reply.status for _, reply in answers if reply)


async def _unregister(models: Models, version: str) -> tuple[str, None]:
    await models.unregister("m", version)
    return version, None


@contextmanager
def virtual(loop: VirtualLoop, world: World) -> Iterator[None]:
    """Time is that of the loop, and workers have no processes."""
    FakeWorker.world = world
    with (
        mock.patch("marina.server.hosts.direct.workers.Worker", FakeWorker),
        mock.patch.object(time, "monotonic", loop.time),
    ):
        yield


def simulate(seed: int) -> Counter[int]:
    """Run a simulation; returns how often each status was answered."""
    world, loop = World(seed), VirtualLoop()
    with virtual(loop, world):
        try:
            return loop.run_until_complete(run(world))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()


if __name__ == "__main__":
    print(simulate(int(sys.argv[1])))
