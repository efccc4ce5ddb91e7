"""How many workers a machine carries."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import psutil
import pytest

from handlers.worker.placement import CPU_CORES
from marina.errors import ServerError
from marina.project import Project
from marina.server import scaling
from marina.server.management.api import ModelStatus
from marina.server.room import Need
from marina.server.run.state import Ports, RunState
from marina.server.scaling import check_cores, check_memory, scale


def test_no_more_workers_than_cores() -> None:
    check_cores("m", 4, 4)
    with pytest.raises(ServerError, match=r"^m would have 5 workers for 4 cores, .*; --force"):
        check_cores("m", 5, 4)


def test_fewer_workers_need_no_force(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    management = SimpleNamespace(
        status=lambda name: ModelStatus(name, "1", 8, 8, 1, 0, []), scale=lambda _, workers: asked.append(workers)
    )
    state = RunState(0, "", Ports(), "")
    monkeypatch.setattr(scaling, "require_running", lambda _: state)
    monkeypatch.setattr(scaling, "management_of", lambda *_: management)
    monkeypatch.setattr(scaling, "need_of", lambda _: Need("m", CPU_CORES, (1,)))
    monkeypatch.setattr(scaling, "check_groups", lambda *_: None)
    monkeypatch.setattr(scaling, "cpu_cores", lambda: list(range(4)))
    monkeypatch.setattr(scaling, "wait_until_ready", lambda *_, **__: None)
    scale(project, "m", 6, 1, print)
    assert asked == [6]
    with pytest.raises(ServerError, match="m would have 9 workers for 4 cores"):
        scale(project, "m", 9, 1, print)


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
