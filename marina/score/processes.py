"""The processes of a job on this machine, one for each core group."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from marina.score.values import Shard
from marina.score.work import Done, Failed, ProcessSetup, Ready, main

WAIT_S = 1.0


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that start meanwhile get no Ctrl-C of the terminal; in this process, it takes effect afterwards."""
    resource_tracker.ensure_running()  # the first process would start it, which unblocks Ctrl-C
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


class LocalPool:
    """Processes of this machine; see `Pool`.

    Args:
        setup: the setup of each process.
        count: the number of processes.
    """

    def __init__(self, setup: ProcessSetup, count: int) -> None:
        self._setup = setup
        self._count = count
        self._context = multiprocessing.get_context("spawn")
        self._numbers = itertools.count()
        self._processes: dict[int, tuple[BaseProcess, Connection]] = {}
        self.assigned: dict[int, list[Shard]] = {}

    def grow(self) -> None:
        while len(self._processes) < self._count:
            parent_end, child_end = self._context.Pipe()
            process = self._context.Process(target=main, args=[self._setup, child_end], daemon=True)
            with without_interrupts():
                process.start()
            child_end.close()
            number = next(self._numbers)
            self._processes[number] = process, parent_end
            self.assigned[number] = []

    def send(self, number: int, shard: Shard) -> None:
        self.assigned[number].append(shard)
        with suppress(OSError):
            _, parent_end = self._processes[number]
            parent_end.send(shard)

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        numbers = {parent_end: number for number, (_, parent_end) in self._processes.items()}
        for readable in connection.wait(list(numbers), WAIT_S):
            assert isinstance(readable, Connection)
            try:
                yield numbers[readable], readable.recv()
            except (EOFError, OSError):
                yield numbers[readable], None

    def remove_dead(self, number: int) -> tuple[list[Shard], str]:
        process, parent_end = self._processes.pop(number)
        parent_end.close()
        process.join()
        code = process.exitcode or 0
        return self.assigned.pop(number), f"signal {-code}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        for process, parent_end in self._processes.values():
            process.kill()
            process.join()
            parent_end.close()
        self._processes.clear()
