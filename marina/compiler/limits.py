"""What this process may use of the machine; a container may have less than there is."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def processors(cgroup: Path = CGROUP) -> int:
    """CPU cores to keep busy, at least 1: those allowed, within the quota of the control group (version 2)."""
    allowed = len(os.sched_getaffinity(0))
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    return max(1, min(allowed, int(quota) // int(period))) if quota.isdecimal() and period.isdecimal() else allowed


def free_memory(cgroup: Path = CGROUP) -> int:
    """Bytes that are free, within the limit of the control group (version 2, or 1)."""
    free = psutil.virtual_memory().available
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _read(cgroup / limit), _read(cgroup / used)
        if most.isdecimal() and now.isdecimal():
            free = min(free, max(0, int(most) - int(now)))
    return int(free)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
