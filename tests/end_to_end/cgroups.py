"""Memory limits as containers have them, by cgroups of version 1 or 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")
VERSION_1 = ROOT / "memory"
PARENT = VERSION_1 if VERSION_1.is_dir() else ROOT
needs_memory_cgroup = pytest.mark.skipif(
    not (VERSION_1.is_dir() or (ROOT / "memory.max").exists()) or not os.access(PARENT, os.W_OK),
    reason="memory cgroups cannot be made here",
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
        folder.rmdir()
