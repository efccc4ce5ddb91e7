"""The memory and the CPU time of a process with its children."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil


def megabytes(pid: int) -> float:
    """The memory of a process and of its children; pages that several processes share are counted once."""
    total = 0.0
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss / 1e6
    return total


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process and its children have used so far; without that of children that have ended."""
    total = 0.0
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _family(pid: int) -> Iterator[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        yield from (process, *process.children(recursive=True))
