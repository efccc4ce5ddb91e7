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
    """Processes that start within it get no Ctrl-C of the terminal; in this one, it takes effect afterwards."""
    resource_tracker.ensure_running()  # the first process would start it, which unblocks Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class LocalPool:
    """Processes of this machine; see `Pool`.

    Args:
        setup: what each needs.
        count: how many.
    """

    def __init__(self, setup: ProcessSetup, count: int) -> None:
        self._setup = setup
        self._count = count
        self._context = multiprocessing.get_context("spawn")
        self._numbers = itertools.count()
        self._processes: dict[int, tuple[BaseProcess, Connection]] = {}
        self.at_hand: dict[int, list[Shard]] = {}

    def grow(self) -> None:
        while len(self._processes) < self._count:
            here, there = self._context.Pipe()
            process = self._context.Process(target=main, args=[self._setup, there], daemon=True)
            with without_interrupts():
                process.start()
            there.close()
            number = next(self._numbers)
            self._processes[number] = process, here
            self.at_hand[number] = []

    def send(self, to: int, shard: Shard) -> None:
        self.at_hand[to].append(shard)
        with suppress(OSError):
            self._processes[to][1].send(shard)

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        numbers = {here: number for number, (_, here) in self._processes.items()}
        for ready in connection.wait(list(numbers), WAIT_S):
            assert isinstance(ready, Connection)
            try:
                yield numbers[ready], ready.recv()
            except (EOFError, OSError):
                yield numbers[ready], None

    def bury(self, dead: int) -> tuple[list[Shard], str]:
        process, here = self._processes.pop(dead)
        here.close()
        process.join()
        code = process.exitcode or 0
        return self.at_hand.pop(dead), f"signal {-code}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        for process, here in self._processes.values():
            process.kill()
            process.join()
            here.close()
        self._processes.clear()
