"""Whether a process keeps memory of the requests that it has answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import psutil

EVERY_S = 0.25
WARM = 0.5  # the part of a process's samples in which it still fills its pools


class Memory:
    """Samples of the unique memory of processes, in megabytes, by process id."""

    def __init__(self) -> None:
        self.samples: dict[int, list[float]] = {}

    def add(self, pid: int) -> None:
        try:
            unique = psutil.Process(pid).memory_full_info().uss
        except psutil.NoSuchProcess:
            return
        self.samples.setdefault(pid, []).append(unique / 1e6)

    def growth_mb(self) -> float:
        """The growth of the process that grew most, between the middle and the end of its samples."""
        return max(growth(samples) for samples in self.samples.values())


def growth(samples: list[float]) -> float:
    """The difference of the medians of the last tenth of samples and of the tenth after the warm part."""
    tenth = max(1, len(samples) // 10)
    start = int(len(samples) * WARM)
    return median(samples[-tenth:]) - median(samples[start : start + tenth])


@contextmanager
def sampled(pids: Callable[[], list[int]]) -> Iterator[Memory]:
    """Sample the processes that a function names, until this is left."""
    memory, over = Memory(), threading.Event()

    def work() -> None:
        while not over.wait(EVERY_S):
            for pid in pids():
                memory.add(pid)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()
