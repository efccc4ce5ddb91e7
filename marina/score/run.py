"""Runs a job with the processes of a pool: hands out shards, notes which are done, and replaces dead processes."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from marina.console import err
from marina.errors import MarinaError
from marina.score.formats.scan import STEP, ShardSize
from marina.score.values import Counts, RowSource, Shard, Sink
from marina.score.work import SHARDS_PER_PROCESS, Done, Failed, Ready

MAX_SHARD_ROWS = 10_000  # planning over more rows saves hardly any padding
# of a shard of longest rows; most rows are much shorter. An interrupted job loses unfinished shards
MAX_SHARD_MS = 30_000
# into which the rows left to each process would be cut: shards become small, so that all processes end together
REMAINING_SHARDS = 2
MIN_SHARD_ROWS = 200  # if the model is not slow: fewer rows leave more padding
MAX_DEATHS = 3  # of processes that answered the same shard; then the job ends
RENEW_S = 5.0

# arguments: the counts of the rows so far, in this run alone
Report = Callable[[Counts], None]


def shard_size(longest_row_ms: float, processes: int) -> ShardSize:
    """The row limit of the next shard, from the rows left: many rows if they take seconds, and fewer at the end."""
    max_rows = min(MAX_SHARD_ROWS, int(MAX_SHARD_MS / longest_row_ms))
    return lambda left: max(STEP, min(max_rows, max(MIN_SHARD_ROWS, left // (REMAINING_SHARDS * processes))))


class Pool(Protocol):
    """The processes of a job, by number.

    Attributes:
        assigned: the shards that each process has and has not written.
    """

    assigned: dict[int, list[Shard]]

    def grow(self) -> None:
        """Start the processes for which there is room."""

    def send(self, number: int, shard: Shard) -> None:
        """Hand a shard to a process; the shard stays assigned if the process has died, until `remove_dead`."""

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        """Messages of processes within a second, with the process's number; None for a process that has died."""

    def remove_dead(self, number: int) -> tuple[list[Shard], str]:
        """Forget a process that has died; returns the shards that it had, and how it ended."""

    def end(self) -> None:
        """End every process at once."""


def run(pool: Pool, source: RowSource, sink: Sink, planned: bool, report: Report) -> tuple[bool, float]:
    """Answer all shards that are not done.

    Args:
        pool: the processes, which are ended.
        source: the rows.
        sink: where the answers go; the job has begun there.
        planned: whether the sink knows the shards of the job.
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
            return _run(pool, source, sink, planned, report, interrupted)
    finally:
        for shards in pool.assigned.values():
            for shard in shards:
                sink.release(shard)
        pool.end()


def _run(
    pool: Pool,
    source: RowSource,
    sink: Sink,
    planned: bool,
    report: Report,
    interrupted: Callable[[], bool],
) -> tuple[bool, float]:
    counts, deaths, renewed_at, started_at = Counts(), Counter[str](), time.monotonic(), 0.0
    loaded_processes: list[int] = []
    pool.grow()
    while True:
        for process, message in pool.receive():
            if isinstance(message, Ready):
                if not planned:
                    sink.plan(source.shards(shard_size(message.longest_row_ms, len(pool.assigned))))
                    planned = True
                started_at = started_at or time.monotonic()
                loaded_processes.append(process)
            elif isinstance(message, Done):
                pool.assigned[process].remove(message.shard)
                sink.written(message.shard)
                counts = counts.plus(message.counts)
                report(counts)
            elif isinstance(message, Failed):
                raise MarinaError(message.message)
            else:
                _replace_dead(process, pool, sink, deaths, process in loaded_processes)
                loaded_processes = [other for other in loaded_processes if other != process]
                pool.grow()
        if time.monotonic() - renewed_at > RENEW_S:
            sink.renew()
            pool.grow()
            renewed_at = time.monotonic()
        if not interrupted():
            _hand_out(pool, loaded_processes, sink)
        complete = planned and sink.complete()
        if (complete or interrupted()) and not any(pool.assigned.values()):
            return complete, time.monotonic() - started_at if started_at else 0.0


def _replace_dead(process: int, pool: Pool, sink: Sink, deaths: Counter[str], was_loaded: bool) -> None:
    """Forget a process that has died; other processes get its shards."""
    shards, exit_reason = pool.remove_dead(process)
    for shard in shards:
        sink.release(shard)
    # it computed the first of its shards, or loaded the model
    work = f"shard {shards[0].number} ({shards[0].place})" if shards else "loading the model"
    if was_loaded and not shards:
        return
    deaths[work] += 1
    if deaths[work] == MAX_DEATHS:
        raise MarinaError(
            f"{work} ended {MAX_DEATHS} processes, the last with {exit_reason}", "it may need more memory than there is"
        )


def _hand_out(pool: Pool, processes: Sequence[int], sink: Sink) -> None:
    """Give shards to every process, in turn."""
    for count in range(1, SHARDS_PER_PROCESS + 1):
        for process in processes:
            if len(pool.assigned[process]) < count:
                shard = sink.claim()
                if shard is None:
                    return
                pool.send(process, shard)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Meanwhile, the first Ctrl-C is only noted, and the second ends the program."""
    presses = []

    def on_interrupt(signal_number: int, _: Any) -> None:
        presses.append(signal_number)
        if len(presses) > 1:
            raise KeyboardInterrupt
        err.print("ending after the shards at hand; press Ctrl-C again to end at once")

    previous_handler = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, previous_handler)
