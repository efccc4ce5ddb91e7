"""Runs a job with the processes of a pool: hands out shards, notes what is done, and replaces what has died."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from marina.console import err
from marina.errors import MarinaError
from marina.score.formats.scan import STEP, Size
from marina.score.values import Counts, RowSource, Shard, Sink
from marina.score.work import AT_HAND, Done, Failed, Ready

SHARD_ROWS = 10_000  # at most: planning over more rows saves hardly any padding
SHARD_MS = 30_000  # of a shard of longest rows; most rows are much shorter. An interrupted job loses its shards at hand
SHARDS = 2  # into which the rows left to a process would go: shards become small, so that all processes end together
LEAST_ROWS = 200  # of a shard, if the model is not slow: fewer leave more padding
DEATHS = 3  # of the processes that answered a shard, after which the job ends
RENEW_S = 5.0
WAIT_S = 1.0

# arguments: what became of rows so far, in this run alone
Report = Callable[[Counts], None]


def shard_size(longest_row_ms: float, processes: int) -> Size:
    """The rows of the next shard, from the rows left: many, as long as it takes a few seconds, and fewer at the end."""
    most = min(SHARD_ROWS, int(SHARD_MS / longest_row_ms))
    return lambda left: max(STEP, min(most, max(LEAST_ROWS, left // (SHARDS * processes))))


class Pool(Protocol):
    """The processes of a job, by number.

    Attributes:
        at_hand: the shards that each has.
    """

    at_hand: dict[int, list[Shard]]

    def grow(self) -> None:
        """Start the processes for which there is room."""

    def send(self, to: int, shard: Shard) -> None:
        """Hand a shard to a process; it keeps it even if the process has died, until that is noticed."""

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        """What processes say within a second; None for one that has died."""

    def bury(self, dead: int) -> tuple[list[Shard], str]:
        """Forget a process that has died; returns the shards that it had at hand, and how it ended."""

    def end(self) -> None:
        """End every process at once."""


def run(pool: Pool, source: RowSource, sink: Sink, begun: bool, report: Report) -> tuple[bool, float]:
    """Answer all shards that are not done.

    Args:
        pool: the processes, which are ended.
        source: the rows.
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
    try:
        with interruptible() as interrupted:
            return _run(pool, source, sink, begun, report, interrupted)
    finally:
        for shards in pool.at_hand.values():
            for shard in shards:
                sink.release(shard)
        pool.end()


def _run(
    pool: Pool,
    source: RowSource,
    sink: Sink,
    begun: bool,
    report: Report,
    interrupted: Callable[[], bool],
) -> tuple[bool, float]:
    counts, deaths, renewed, started = Counts(), Counter[str](), time.monotonic(), 0.0
    loaded: list[int] = []
    pool.grow()
    while True:
        for process, said in pool.receive():
            if isinstance(said, Ready):
                if not begun:
                    sink.plan(source.shards(shard_size(said.longest_row_ms, len(pool.at_hand))))
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
                _bury(process, pool, sink, deaths, process in loaded)
                loaded = [one for one in loaded if one != process]
                pool.grow()
        if time.monotonic() - renewed > RENEW_S:
            sink.renew()
            pool.grow()
            renewed = time.monotonic()
        if not interrupted():
            _hand_out(pool, loaded, sink)
        complete = begun and sink.complete()
        if (complete or interrupted()) and not any(pool.at_hand.values()):
            return complete, time.monotonic() - started if started else 0.0


def _bury(dead: int, pool: Pool, sink: Sink, deaths: Counter[str], loaded: bool) -> None:
    """Forget a process that has died, whose shards others get."""
    shards, how = pool.bury(dead)
    for shard in shards:
        sink.release(shard)
    # the one that it computed, or the model
    what = f"shard {shards[0].number} ({shards[0].place})" if shards else "loading the model"
    if loaded and not shards:
        return
    deaths[what] += 1
    if deaths[what] == DEATHS:
        raise MarinaError(
            f"{what} ended {DEATHS} processes, the last with {how}", "it may need more memory than there is"
        )


def _hand_out(pool: Pool, loaded: Sequence[int], sink: Sink) -> None:
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
