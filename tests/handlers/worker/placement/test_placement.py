"""What a worker's process sees of its placement; each test asks a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.errors import PlacementError
from handlers.worker.placement import core_groups, group_cores
from handlers.worker.placement.choice import GroupSizes
from handlers.worker.placement.discovery import cpu_cores
from tests.conftest import ENGINE, ROOT

PLACE = """
import json, os, sys, threading, time
from handlers.worker.errors import WorkerError
from handlers.worker.engines import engine_module
from handlers.worker.placement import place
threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
try:
    placement = place(engine_module(sys.argv[1]).CORES, sys.argv[2] or None, "search", wait_s=0)
except WorkerError as error:
    print(json.dumps(str(error)))
else:
    tasks = {tuple(sorted(os.sched_getaffinity(int(task)))) for task in os.listdir("/proc/self/task")}
    names = ("VISIBLE_CORES", "NUM_CORES")
    seen = {name: os.environ.get(f"NEURON_RT_{name}") for name in names}
    seen |= {name: os.environ.get(name) for name in ("NEURONCORE_GROUP_SIZES", "NEURON_PROCESS_TAG")}
    print(json.dumps([placement.cores, placement.threads, sorted(tasks), seen]))
"""


def placed(leases: Path, engine: str, asked: str, **environment: str) -> Any:
    """Cores, threads, affinities and variables of a placed process, or why it was refused."""
    result = subprocess.run(
        [sys.executable, "-c", PLACE, engine, asked],
        cwd=ROOT,
        env={**os.environ, "MARINA_LEASES": str(leases), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_a_neuron_worker_sees_its_core_alone(tmp_path: Path) -> None:
    given = {"NEURON_RT_VISIBLE_CORES": "4-7", "NEURON_RT_NUM_CORES": "2", "NEURONCORE_GROUP_SIZES": "2,2"}
    cores, threads, _, seen = placed(tmp_path, "neuronx", "1,1,1,1", **given)
    assert cores == [4, 5]
    assert threads == max(1, len(cpu_cores()) // 2)
    assert seen == {
        "VISIBLE_CORES": "4-5",
        "NUM_CORES": None,
        "NEURONCORE_GROUP_SIZES": None,
        "NEURON_PROCESS_TAG": "search-nc4-5",
    }


def test_without_groups_a_neuron_worker_has_one_core(tmp_path: Path) -> None:
    assert placed(tmp_path, "neuron", "", NEURON_RT_VISIBLE_CORES="0-3")[0] == [0]


def test_a_group_larger_than_the_machine_is_refused(tmp_path: Path) -> None:
    message = placed(tmp_path, "neuron", "8", NEURON_RT_VISIBLE_CORES="0-3")
    assert message.startswith("a core group of 8 is configured, but only 4 cores can be used here")
    assert "a core group of 99" in placed(tmp_path, ENGINE, "99")


def test_every_thread_of_a_cpu_worker_keeps_to_its_group(tmp_path: Path) -> None:
    one = cpu_cores()[0]
    cores, threads, affinities, _ = placed(tmp_path, ENGINE, "1")
    assert (cores, threads, affinities) == ([one], 1, [[one]])


def test_without_groups_a_cpu_worker_has_every_core(tmp_path: Path) -> None:
    cores, threads, affinities, _ = placed(tmp_path, "torchscript", "")
    assert tuple(cores) == cpu_cores()
    assert (threads, affinities) == (len(cores), [cores])
    assert not list(tmp_path.iterdir())


def test_groups_of_the_environment_are_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURONCORE_GROUP_SIZES", raising=False)
    assert core_groups(None) == GroupSizes(None, (1,))
    assert core_groups("2,2") == GroupSizes((2, 2), (2, 2))
    assert (group_cores("2,2"), group_cores(None)) == (2, len(cpu_cores()))
    monkeypatch.setenv("NEURONCORE_GROUP_SIZES", "3,4,1")
    assert core_groups("2,2") == GroupSizes((3, 4, 1), (2, 2), True, "NEURONCORE_GROUP_SIZES")
    assert core_groups(None).preferred == (1,)
    monkeypatch.setenv("NEURONCORE_GROUP_SIZES", "2;2")
    with pytest.raises(PlacementError, match="NEURONCORE_GROUP_SIZES: '2;2' is not a list"):
        core_groups("2,2")
