"""Core groups on the CPU: workers keep to the cores of their groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handlers.worker.placement.discovery import cpu_cores
from marina.project import Project
from tests.end_to_end.conftest import Server, run_marina, serving

pytestmark = pytest.mark.long

AddTiny = Callable[..., Path]


def affinities(pid: int) -> set[tuple[int, ...]]:
    """The cores that each thread of a process may run on, from /proc."""
    return {tuple(sorted(os.sched_getaffinity(int(task.name)))) for task in Path(f"/proc/{pid}/task").iterdir()}


def check(server: Server, groups: list[tuple[int, ...]]) -> None:
    pids = server.worker_pids("m")
    assert sorted(next(iter(affinities(pid))) for pid in pids) == groups
    assert all(len(affinities(pid)) == 1 for pid in pids)
    assert server.post("m", {"inputs": "ok"}).status_code == 200


@pytest.fixture
def cores() -> Iterator[tuple[int, ...]]:
    """Every core of the machine, at least two, although tests side by side have one each."""
    before = cpu_cores()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        if len(cpu_cores()) < 2:
            pytest.skip("needs two CPU cores")
        yield cpu_cores()
    finally:
        os.sched_setaffinity(0, before)


def test_workers_keep_to_their_groups(
    project: Project, add_tiny: AddTiny, tmp_path: Path, cores: tuple[int, ...]
) -> None:
    add_tiny("m", core_groups="1,1")
    assert run_marina(project, "archive").returncode == 0
    first, second = cores[:2]
    leases = {"MARINA_LEASES": str(tmp_path / "leases")}
    with serving(project, "m", **leases) as server:
        check(server, [(first,), (second,)])
    with serving(project, "m", NEURONCORE_GROUP_SIZES="2", **leases) as server:
        check(server, [(first, second)])
