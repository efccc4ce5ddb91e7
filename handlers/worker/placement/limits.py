"""The limits that a container sets for this process: a CPU time quota, and memory.

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

    controller: str  # folder below `CGROUP`; version 2 has none
    limit: str
    used: str
    cache: str  # the part of the usage that can be reclaimed, in memory.stat


MEMORY = (
    Limit("", "memory.max", "memory.current", "inactive_file"),
    Limit("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def cpu_quota(cgroup: Path = CGROUP, proc: Path = PROC) -> float | None:
    """The CPU time that this process may use, in processors; None if there is no limit."""
    quotas = []
    for folder in _folders("", cgroup, proc):
        quotas.append(_read(folder / "cpu.max").split())
    for folder in _folders("cpu", cgroup, proc):
        quotas.append([_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")])
    shares = [int(quota[0]) / int(quota[1]) for quota in quotas if len(quota) == 2 and all(map(str.isdecimal, quota))]
    return min((share for share in shares if share > 0), default=None)


def free_memory(cgroup: Path = CGROUP, proc: Path = PROC) -> int:
    """Bytes of memory that this process can still allocate."""
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
    """The control group of this process for a controller, and the groups above it, as far as they are visible.

    Inside a container, the process's own group is often at the place of the machine's root group, whatever its name.
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
