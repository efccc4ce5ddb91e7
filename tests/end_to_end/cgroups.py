"""Memory limits as containers have them, by cgroups of version 1 or 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")
VERSION_1 = ROOT / "memory"
PARENT = VERSION_1 if VERSION_1.is_dir() else ROOT
CONTROLLERS = ROOT / "cgroup.subtree_control"  # of version 2, that children have
HAS_MEMORY = VERSION_1.is_dir() or (CONTROLLERS.exists() and "memory" in CONTROLLERS.read_text().split())
needs_memory_cgroup = pytest.mark.skipif(
    not HAS_MEMORY or not os.access(PARENT, os.W_OK), reason="control groups cannot be made here"
)


@contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """A cgroup whose processes have at most `limit` bytes of memory; processes join by its file `cgroup.procs`."""
    folder = PARENT / f"marina-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / ("memory.limit_in_bytes" if VERSION_1.is_dir() else "memory.max")).write_text(str(limit))
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), 20)  # processes that have not ended yet
        folder.rmdir()
