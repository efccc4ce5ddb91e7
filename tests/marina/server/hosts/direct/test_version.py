"""A version of a model with real worker processes: nobody gets the answer of another, and none is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.answering.reply import Reply
from handlers.worker.telemetry.metrics import READY_SECONDS
from marina.server.hosts.direct.version import Version
from marina.server.hosts.direct.worker import WorkerLost
from marina.server.run.logs import DIED_MESSAGE
from tests.marina.server.hosts.direct.fake import served, until_logged, until_ready


def handler(deadline_ms: int) -> dict[str, Any]:
    return {"deadline_ms": deadline_ms, "members": {}}


async def ask(version: Version, bodies: Sequence[str]) -> list[Reply]:
    return list(await asyncio.gather(*(version.reply(body.encode(), {}) for body in bodies)))


def test_requests_share_batches_and_get_their_own_answers(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (version, lines):
            await until_ready(version)
            replies = await ask(version, list("abcdefghi"))
            assert [reply.body.decode() for reply in replies] == list("abcdefghi")
            assert {reply.headers["x-batch"] for reply in replies} > {"4"}
            assert (version.pending, version.traffic.requests) == (0, 9)
            assert "a line of the worker" in lines

    asyncio.run(run())


def test_a_worker_that_dies_takes_only_the_request_along_that_it_died_of(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (version, lines):
            await until_ready(version)
            replies = await ask(version, ["slow", "a", "die", "b"])
            assert [reply.status for reply in replies] == [200, 200, 503, 200]
            assert any(DIED_MESSAGE in line for line in lines)

    asyncio.run(run())


def test_a_request_survives_the_death_of_its_worker(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as (version, _):
            await until_ready(version)
            assert [reply.status for reply in await ask(version, ["die once"])] == [200]

    asyncio.run(run())


@pytest.mark.parametrize("body", ["drop", "hang"])
def test_a_worker_that_answers_wrongly_or_not_at_all_is_replaced(tmp_path: Path, body: str) -> None:
    async def run() -> None:
        async with served(tmp_path) as (version, _):
            await until_ready(version)
            (first,) = version.workers.ready
            (reply,) = await ask(version, [body])
            assert reply.status == 503
            await until_ready(version)
            assert version.workers.ready != [first]
            assert [reply.body for reply in await ask(version, ["a"])] == [b"a"]

    asyncio.run(run())


def test_a_full_queue_refuses_and_old_requests_expire(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, jobQueueSize=2, batchSize=1, handler=handler(100)) as (
            version,
            _,
        ):
            await until_ready(version)
            replies = await ask(version, ["slow", "slow", "a", "b"])
            assert [reply.status for reply in replies] == [200, 503, 503, 503]
            kinds = [reply.body.decode().partition('"type":"')[2].partition('"')[0] for reply in replies[1:]]
            assert kinds == ["TooLate", "TooLate", "Overloaded"]

    asyncio.run(run())


def test_a_client_that_leaves_is_not_computed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, batchSize=1) as (version, _):
            await until_ready(version)
            first = asyncio.create_task(version.reply(b"slow", {}))
            await asyncio.sleep(0.05)
            gone = asyncio.create_task(version.reply(b"die", {}))
            await asyncio.sleep(0.05)
            gone.cancel()
            assert (await first).status == 200
            assert [reply.status for reply in await ask(version, ["a"])] == [200]

    asyncio.run(run())


def worker_counts(counts: list[list[Any]]) -> list[list[Any]]:
    """The counts that workers have sent, without the seconds that they were READY."""
    return [count for count in counts if count and count[0][0] != READY_SECONDS]


def test_workers_are_scaled_and_described_in_turn(tmp_path: Path) -> None:
    async def run() -> None:
        counts: list[list[Any]] = []
        async with served(tmp_path, counts.append) as (version, _):
            version.workers.scale(2)
            await until_ready(version, 2)
            pids = {(await version.workers.describe())["pid"] for _ in range(2)}
            assert pids == {worker.pid for worker in version.workers.ready}
            await version.workers.take_counts()
            assert len(worker_counts(counts)) == 2
            version.workers.scale(1)
            await until_ready(version, 1)
            while len(worker_counts(counts)) < 3:  # those of the worker that ended
                await asyncio.sleep(0.02)
            os.kill(version.workers.ready[0].pid, signal.SIGKILL)
            await until_ready(version, 0)
            with pytest.raises(WorkerLost):
                await version.workers.describe()
            await until_ready(version, 1)

    asyncio.run(run())


def test_seconds_of_workers_that_are_ready_are_counted(tmp_path: Path) -> None:
    async def run() -> None:
        counts: list[list[Any]] = []
        async with served(tmp_path, counts.append) as (version, _):
            await until_ready(version)
            await asyncio.sleep(0.3)
            await version.workers.take_counts()
            assert 0.2 < sum(value for (name, _, value), *_ in filter(None, counts) if name == READY_SECONDS) < 10

    asyncio.run(run())


def test_a_worker_of_another_release_is_not_asked_anything(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "old").touch()
        async with served(tmp_path, handler=handler(300)) as (version, lines):
            assert [reply.status for reply in await ask(version, ["a"])] == [503]
            await until_logged(lines, "of another release of Marina; pack it again")
            assert not version.workers.ready

    asyncio.run(run())


def test_a_worker_that_cannot_start_says_why_and_requests_do_not_wait_forever(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "broken").touch()
        async with served(tmp_path, handler=handler(300)) as (version, lines):
            assert [reply.status for reply in await ask(version, ["a"])] == [503]
            await until_logged(lines, DIED_MESSAGE)
            assert lines.index("marina: cannot serve: it is broken") < len(lines) - 1

    asyncio.run(run())


def test_what_has_no_answer_at_the_end_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, batchSize=1) as (version, _):
            await until_ready(version)
            tasks = [asyncio.create_task(version.reply(body, {})) for body in (b"slow", b"a")]
            await asyncio.sleep(0.1)
        assert [reply.status for reply in await asyncio.gather(*tasks)] == [200, 503]

    asyncio.run(run())
