"""How many workers a machine carries."""

from __future__ import annotations

import os
import subprocess

import psutil
import pytest

from marina.errors import ServerError
from marina.server import scaling
from marina.server.management.api import ModelStatus
from marina.server.scaling import check_cores, check_memory


def test_no_more_workers_than_cores() -> None:
    check_cores("m", 4, 4)
    with pytest.raises(ServerError, match=r"^m would have 5 workers for 4 cores, .*; --force"):
        check_cores("m", 5, 4)


def test_no_more_workers_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as ended:
        ended.kill()
    # a worker that has just died says nothing of memory
    status = ModelStatus("m", "1", 2, 2, 1, 0, [os.getpid(), ended.pid])
    held = psutil.Process().memory_full_info().uss
    monkeypatch.setattr(scaling, "free_memory", lambda: 2.5 * held)
    check_memory(status, 1)
    check_memory(status, 4)
    with pytest.raises(ServerError, match=r"^3 more workers of m need about \S+ GB of memory, and \S+ GB are free; -"):
        check_memory(status, 5)
