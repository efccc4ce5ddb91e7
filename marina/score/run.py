"""Runs a job on the core groups of this machine, a process for each."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from marina.console import err
from marina.errors import MarinaError
from marina.score.formats.scan import STEP, Size
from marina.score.values import Counts, Shard, Sink, Source
from marina.score.work import Done, Failed, Ready, Setup, main

AT_HAND = 2  # shards of a process: one that is computed, and one that is read meanwhile
SHARD_ROWS = 10_000  # at most: planning over more rows saves hardly any padding
SHARD_MS = 30_000  # of a shard of longest rows; most rows are much shorter. An interrupted job loses its shards at hand
SHARDS = 4  # into which the rows left to a process would go: shards become small, so that all processes end together
DEATHS = 3  # of the processes that answered a shard, after which the job ends
RENEW_S = 5.0
WAIT_S = 1.0

# arguments: what became of rows so far, in this run alone
Report = Callable[[Counts], None]


def shard_size(longest_row_ms: float, processes: int) -> Size:
    """The rows of the next shard, from the rows left: many, as long as it takes a few seconds, and fewer at the end."""
    most = min(SHARD_ROWS, int(SHARD_MS / longest_row_ms))
    return lambda left: max(STEP, min(most, left // (SHARDS * processes)))


class Pool:
    """The processes of a job.

    Args:
        setup: what each needs.
        count: how many.
    """

    def __init__(self, setup: Setup, count: int) -> None:
        self._setup = setup
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        self.at_hand: dict[Connection, list[Shard]] = {}
        for _ in range(count):
            self.start()

    def start(self) -> None:
        """Start a process."""
        here, there = self._context.Pipe()
        process = self._context.Process(target=main, args=[self._setup, there], daemon=True)
        process.start()
        there.close()
        self._processes[here] = process
        self.at_hand[here] = []

    def send(self, to: Connection, shard: Shard) -> None:
        """Hand a shard to a process; it keeps it even if the process has died, until that is noticed."""
        self.at_hand[to].append(shard)
        with suppress(OSError):
            to.send(shard)

    def receive(self) -> Iterator[tuple[Connection, Ready | Done | Failed | None]]:
        """What processes say within a second; None for one that has died."""
        for ready in connection.wait(list(self._processes), WAIT_S):
            assert isinstance(ready, Connection)
            try:
                yield ready, ready.recv()
            except (EOFError, OSError):
                yield ready, None

    def bury(self, dead: Connection) -> tuple[list[Shard], str]:
        """Forget a process that has died; returns the shards that it had at hand, and how it ended."""
        process = self._processes.pop(dead)
        dead.close()
        process.join()
        code = process.exitcode or 0
        return self.at_hand.pop(dead), f"signal {-code}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        """End every process at once."""
        for here, process in self._processes.items():
            process.kill()
            process.join()
            here.close()
        self._processes.clear()


def run(setup: Setup, processes: int, sink: Sink, begun: bool, report: Report) -> tuple[bool, float]:
    """Answer all shards that are not done.

    Args:
        setup: what processes need.
        processes: how many there are.
        sink: where the answers go; the job has begun there.
        begun: whether its shards are known there.
        report: called after every shard.

    Returns:
        Whether all shards are done; False if Ctrl-C ended the job earlier. And the seconds since the first model was
        loaded.

    Raises:
        MarinaError: the model cannot be loaded, or a shard not be read, answered or written. What is done stays.
        KeyboardInterrupt: Ctrl-C was pressed twice.
    """
    pool = Pool(setup, processes)
    try:
        with interruptible() as interrupted:
            return _run(pool, setup.source, processes, sink, begun, report, interrupted)
    finally:
        for shards in pool.at_hand.values():
            for shard in shards:
                sink.release(shard)
        pool.end()


def _run(
    pool: Pool,
    source: Source,
    processes: int,
    sink: Sink,
    begun: bool,
    report: Report,
    interrupted: Callable[[], bool],
) -> tuple[bool, float]:
    counts, deaths, renewed, started = Counts(), Counter[int](), time.monotonic(), 0.0
    loaded: list[Connection] = []
    while True:
        for process, said in pool.receive():
            if isinstance(said, Ready):
                if not begun:
                    sink.plan(source.shards(shard_size(said.longest_row_ms, processes)))
                    begun = True
                started = started or time.monotonic()
                loaded.append(process)
            elif isinstance(said, Done):
                pool.at_hand[process].remove(said.shard)
                sink.written(said.shard)
                counts = counts.plus(said.counts)
                report(counts)
            elif isinstance(said, Failed):
                raise MarinaError(said.message)
            else:
                _replace(process, pool, sink, deaths, process in loaded)
                loaded.remove(process)
        if time.monotonic() - renewed > RENEW_S:
            sink.renew()
            renewed = time.monotonic()
        if not interrupted():
            _hand_out(pool, loaded, sink)
        if begun and not any(pool.at_hand.values()) and (sink.complete() or interrupted()):
            return sink.complete(), time.monotonic() - started


def _replace(dead: Connection, pool: Pool, sink: Sink, deaths: Counter[int], loaded: bool) -> None:
    """Start a process in place of one that has died, whose shards others get."""
    shards, how = pool.bury(dead)
    if not loaded:
        raise MarinaError(f"a process ended while it loaded the model, with {how}")
    for shard in shards:
        sink.release(shard)
    for shard in shards[:1]:  # the one that it computed
        deaths[shard.number] += 1
        if deaths[shard.number] == DEATHS:
            raise MarinaError(
                f"shard {shard.number} ({shard.place}) ended {DEATHS} processes, the last with {how}",
                "it may need more memory than there is",
            )
    pool.start()


def _hand_out(pool: Pool, loaded: Sequence[Connection], sink: Sink) -> None:
    """Give every process shards to do, in turn."""
    for count in range(1, AT_HAND + 1):
        for process in loaded:
            if len(pool.at_hand[process]) < count:
                shard = sink.claim()
                if shard is None:
                    return
                pool.send(process, shard)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within it, Ctrl-C is only taken note of, and ends the program when it is pressed again."""
    pressed = []

    def note(number: int, _: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            raise KeyboardInterrupt
        err.print("ending after the shards at hand; press Ctrl-C again to end at once")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
