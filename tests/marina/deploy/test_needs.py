"""The memory of pods: what was measured of workers, else an estimate with room."""

from __future__ import annotations

import pytest

from marina.archive.describe import TORCH_BYTES, TORCH_SHARED_BYTES, WORKER_BYTES, Archive
from marina.archive.footprint import Footprint
from marina.deploy.needs import LIMIT_FACTOR, LIMIT_ROOM, REQUEST_FACTOR, needs_of, workers_memory
from marina.server.hosts.table import HOSTS
from marina.server.run.state import DIRECT, TORCHSERVE
from tests.marina.deploy.test_kubernetes import on

FOOTPRINT = Footprint(300_000_000, 400_000_000, 100_000_000, 1.0, 2, "any")


@pytest.mark.parametrize(
    ("host", "memory"),
    [(DIRECT, 100e6 + 2 * 400e6), (TORCHSERVE, 100e6 + 2 * 400e6 + TORCH_SHARED_BYTES + 2 * TORCH_BYTES)],
)
def test_a_pod_gets_what_its_workers_were_measured_to_take(archives: list[Archive], host: str, memory: float) -> None:
    handler = {**archives[0].config["handler"], "core_groups": "1,1"}
    config = {**archives[0].config, "minWorkers": 2, "handler": handler}
    measured = archives[0]._replace(config=config, footprint=FOOTPRINT)
    needs = needs_of([measured], "cpu", 2, None, host)
    assert needs.memory_request == HOSTS[host].idle_bytes + memory
    assert needs.memory_limit == pytest.approx(HOSTS[host].max_bytes + LIMIT_ROOM * memory)
    # beside one that was not measured
    other = archives[1]._replace(footprint=None)
    size = WORKER_BYTES + other.size
    both = needs_of([measured, other], "cpu", 2, None, host)
    assert both.memory_request == pytest.approx(needs.memory_request + REQUEST_FACTOR * size)
    assert both.memory_limit == pytest.approx(needs.memory_limit + LIMIT_FACTOR * size)


def test_a_worker_with_more_cores_than_the_measured_one_gets_more_room(archives: list[Archive]) -> None:
    memory = FOOTPRINT.shared_bytes + FOOTPRINT.peak_bytes
    handler = archives[0].config["handler"]
    for groups, cpus, measured in ((None, 2, True), (None, 16, False), ("2", 16, True), ("2,4", 2, False)):
        config = {**archives[0].config, "minWorkers": 1, "handler": {**handler, "core_groups": groups}}
        archive = archives[0]._replace(config=config, footprint=FOOTPRINT)
        expected = (1.0, LIMIT_ROOM) if measured else (REQUEST_FACTOR, LIMIT_FACTOR)
        assert workers_memory([archive], DIRECT, cpus) == pytest.approx([memory * factor for factor in expected])
    # the pod's cores count, which may be those of another archive
    alone, beside = (
        archives[0]._replace(config={**archives[0].config, "handler": {**handler, "core_groups": groups}})
        for groups in (None, "4")
    )
    request = needs_of([alone._replace(footprint=FOOTPRINT), beside], "cpu", 2, None, DIRECT).memory_request
    assert request == pytest.approx(
        HOSTS[DIRECT].idle_bytes + REQUEST_FACTOR * (memory + beside.memory(torchserve=False))
    )


def test_workers_that_import_pytorch_anyway_take_no_more_with_torchserve(archives: list[Archive]) -> None:
    archive = archives[0]._replace(footprint=FOOTPRINT)
    assert archive.memory(torchserve=True) - archive.memory(torchserve=False) == TORCH_BYTES + TORCH_SHARED_BYTES
    script = archive.artifacts[0].__class__(**{**vars(archive.artifacts[0]), "engine": "torchscript"})
    assert archive._replace(artifacts=(script,)).memory(torchserve=True) == 500_000_000


@pytest.mark.parametrize(
    ("engine", "groups", "cpus"),
    # inf1.xlarge and inf2.xlarge have 4 CPU cores, inf1.6xlarge 24
    [("neuron", "1", 2), ("neuron", "1,1,1,1", 3), ("neuron", "1,1,1,1,1", 6), ("neuronx", "1,1", 3)],
)
def test_workers_on_neuroncores_fit_an_instance(archives: list[Archive], engine: str, groups: str, cpus: int) -> None:
    archive = on(archives[0], engine, groups)
    archive = archive._replace(config={**archive.config, "minWorkers": len(archive.groups)})
    needs = needs_of([archive], archive.stack, 2, None, TORCHSERVE)
    assert (needs.cpus, needs.neuron_cores) == (cpus, len(archive.groups))
