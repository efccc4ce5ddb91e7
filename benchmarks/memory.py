"""The memory of processes."""

from __future__ import annotations

from contextlib import suppress

import psutil


def megabytes(pid: int) -> float:
    """The memory of a process and of its children; pages that several processes share are counted once."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss / 1e6
    return total
