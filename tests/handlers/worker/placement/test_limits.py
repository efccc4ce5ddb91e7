"""Limits of containers, in folders as the kernel shows them, and in a real group where one can be made."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from handlers.worker.placement.limits import CGROUP, cpu_quota, free_memory
from tests.conftest import ROOT

MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    write(folder, {"meminfo": MEMINFO, "self/cgroup": "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/a/b\n0::/a/b\n"})
    return folder


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "a/b/cpu.max": "400000 100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/a/b/cpu.cfs_quota_us": "50000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 0.5),
    ],
)
def test_a_quota_of_time_in_either_version(tmp_path: Path, proc: Path, files: dict[str, str], quota: float) -> None:
    assert cpu_quota(write(tmp_path / "cgroup", files), proc) == quota


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8_192_000_000),
        ({"memory.max": "max\n", "memory.current": "400000\n"}, 8_192_000_000),
        ({"memory.max": "1000000\n", "memory.current": "400000\n"}, 600_000),
        # what is cached of files is given up where memory is short
        (
            {"memory.max": "1000000\n", "memory.current": "900000\n", "memory.stat": "anon 5\ninactive_file 700000\n"},
            800_000,
        ),
        ({"a/memory.max": "1000000\n", "a/memory.current": "2000000\n"}, 0),
        (
            {
                "memory/a/b/memory.limit_in_bytes": "1000000\n",
                "memory/a/b/memory.usage_in_bytes": "900000\n",
                "memory/a/b/memory.stat": "cache 9\ntotal_inactive_file 100000\n",
            },
            200_000,
        ),
    ],
)
def test_a_limit_of_memory_in_either_version(tmp_path: Path, proc: Path, files: dict[str, str], free: int) -> None:
    assert free_memory(write(tmp_path / "cgroup", files), proc) == free


def test_this_machine_can_be_read() -> None:
    assert 0 < free_memory() <= psutil.virtual_memory().total


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A control group of version 1 with one processor's worth of time, where this process may make one."""
    group = CGROUP / "cpu" / f"marina-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("100000")
    except OSError:
        with suppress(OSError):
            group.rmdir()
        pytest.skip("control groups cannot be made here")
    yield group
    group.rmdir()


CODE = """
import json, os, sys
from pathlib import Path
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
from handlers.worker.placement import CPU_CORES, group_cores, place
from handlers.worker.placement.discovery import allowed_cores
placement = place(CPU_CORES, sys.argv[2] or None, "m")
print(placement.threads, len(placement.cores), group_cores(None), len(os.sched_getaffinity(0)) == len(allowed_cores()))
"""


@pytest.mark.parametrize("groups", ["", "1"])
def test_a_worker_in_a_real_group_keeps_to_its_quota(real_group: Path, groups: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CODE, str(real_group), groups], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["1", "1", "1", "True"]
