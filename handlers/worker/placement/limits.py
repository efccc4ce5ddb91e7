"""What a container lets this process use of its machine: a quota of CPU time, and memory.

Sources: the Linux kernel's documentation of control groups, version 1 (cpu.cfs_quota_us, cpu.cfs_period_us,
memory.limit_in_bytes, memory.usage_in_bytes) and 2 (cpu.max, memory.max, memory.current).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")


class Limit(NamedTuple):
    """The names of a limit's files in one version of control groups."""

    controller: str  # the folder below `CGROUP`; version 2 has none
    limit: str
    used: str
    cache: str  # what of the use can be given up, in memory.stat


MEMORY = (
    Limit("", "memory.max", "memory.current", "inactive_file"),
    Limit("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def cpu_quota(cgroup: Path = CGROUP, proc: Path = PROC) -> float | None:
    """The processors' worth of time that this process may take; None where there is no limit."""
    quotas = []
    for folder in _folders("", cgroup, proc):
        quotas.append(_read(folder / "cpu.max").split())
    for folder in _folders("cpu", cgroup, proc):
        quotas.append([_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")])
    shares = [int(quota[0]) / int(quota[1]) for quota in quotas if len(quota) == 2 and all(map(str.isdecimal, quota))]
    return min((share for share in shares if share > 0), default=None)


def free_memory(cgroup: Path = CGROUP, proc: Path = PROC) -> int:
    """Bytes that this process may still take."""
    fields = dict(line.split(":", 1) for line in _read(proc / "meminfo").splitlines() if ":" in line)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    for kind in MEMORY:
        for folder in _folders(kind.controller, cgroup, proc):
            limit, used = _read(folder / kind.limit), _read(folder / kind.used)
            if limit.isdecimal() and used.isdecimal():
                statistics = dict(
                    line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line
                )
                cache = int(statistics.get(kind.cache, 0))
                free = min(free, max(0, int(limit) - max(0, int(used) - cache)))
    return free


def _folders(controller: str, cgroup: Path, proc: Path) -> Iterator[Path]:
    """The group of this process for a controller, and those above it, as far as they can be seen.

    Inside a container its own group is often where the machine's would be, whatever its name says.
    """
    top = cgroup / controller
    yield top
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            group = top
            for part in Path(path.lstrip("/")).parts:
                group = group / part
                yield group


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
