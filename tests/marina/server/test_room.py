"""Whether the cores are enough, before anything starts and beside what a server has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.worker.engines import engine_module
from handlers.worker.placement.choice import ExclusiveGroup, GroupSizes, server_of, worker_of
from handlers.worker.placement.leases import Lease, leases_folder, take_lease
from marina.errors import ServerError
from marina.server import room
from marina.server.room import Need, check_free_cores, check_groups, check_room, variables_of, workers_of
from marina.server.run.state import Ports, RunState

CORES = engine_module("neuronx").CORES
GROUPS = "NEURONCORE_GROUP_SIZES"
Hold = Callable[..., Lease]


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four NeuronCores; an archive is called like its model, with its groups: a-1,1.mar."""
    monkeypatch.setenv("MARINA_LEASES", str(tmp_path))
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-3")
    monkeypatch.delenv(GROUPS, raising=False)

    def placement_of(path: Path) -> tuple[str, str]:
        return "neuronx", path.stem.partition("-")[2]

    monkeypatch.setattr(room, "placement_of", placement_of)


def archive(name: str, groups: str) -> Path:
    return Path(f"{name}-{groups}.mar")


def server(**variables: str) -> RunState:
    """A server whose workers are those of this process."""
    return RunState(os.getpid(), "", Ports(), "", variables={"NEURON_RT_VISIBLE_CORES": "0-3", **variables})


@pytest.fixture
def hold() -> Hold:
    """Leases a group for a worker of the server."""

    def take(name: str, size: int) -> Lease:
        worker = worker_of(name)._replace(server=server_of(os.getpid()))
        group = ExclusiveGroup(worker, (0, 1, 2, 3), GroupSizes((size,) * 8), 0)
        return take_lease(leases_folder(CORES.leases), worker, group.choose)

    return take


def test_cores_are_added_up_over_models() -> None:
    check_room([archive("a", "1,1"), archive("b", "2")])
    with pytest.raises(ServerError, match=r"a-1,1,1 1,1,1 and b-2 2 need 5 NeuronCores, and 4 can be used here"):
        check_room([archive("a", "1,1,1"), archive("b", "2")])


def test_the_groups_of_the_environment_are_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GROUPS, "1,1,2")
    check_room([archive("a", "1,1"), archive("b", "2")])
    check_room([archive("alone", "1")])
    with pytest.raises(ServerError, match="has 3 groups for the workers of all models"):
        check_room([archive("a", "1,1,1"), archive("b", "2")])
    monkeypatch.setenv(GROUPS, "3,4")
    with pytest.raises(ServerError, match="NEURONCORE_GROUP_SIZES=3,4 needs 7 NeuronCores, and 4 can be used here"):
        check_room([archive("alone", "1")])
    monkeypatch.setenv(GROUPS, "3;4")
    with pytest.raises(ServerError, match="is not a list of core group sizes"):
        check_room([archive("alone", "1")])


def test_a_running_servers_workers_are_counted_by_what_they_hold(hold: Hold) -> None:
    """A model that was scaled down makes room for another."""
    held = hold("a-1,1,1,1", 1)
    check_free_cores([archive("b", "1,1,1")], server())
    with pytest.raises(ServerError, match="b-4 4 need 4 NeuronCores, and 3 are free; give other models fewer workers"):
        check_free_cores([archive("b", "4")], server())
    check_free_cores([archive("a", "1,1,1,1")], server(), replaced=True)
    with pytest.raises(ServerError, match="and 3 are free"):
        check_free_cores([archive("a", "1,1,1,1")], server())
    held.release()


def test_the_variables_of_the_server_count_and_not_those_of_the_shell(
    hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GROUPS, "4")
    own = server(**{GROUPS: "1,1"})
    held = hold("a-1", 1)
    check_free_cores([archive("b", "1")], own)
    with pytest.raises(ServerError, match="NEURONCORE_GROUP_SIZES=1,1 leaves 1 core groups, and b-1,1 1,1 need 2"):
        check_free_cores([archive("b", "1,1")], own)
    with variables_of(server()):
        assert GROUPS not in os.environ
    assert os.environ[GROUPS] == "4"
    held.release()


def test_a_model_that_is_alone_gets_every_group(hold: Hold) -> None:
    own, need = server(**{GROUPS: "1,1,1"}), Need("a", CORES, (1,))
    assert workers_of(need, own, ["a"]) == 3
    assert workers_of(need, own, ["a", "b"]) == 1
    assert workers_of(need, server(), ["a"]) == 1
    held = hold("b", 1)
    assert workers_of(need, own, ["a"]) == 1
    held.release()


def test_a_model_is_scaled_up_to_its_groups(hold: Hold) -> None:
    check_groups(archive("a", "1,1"), 2, server())
    with pytest.raises(ServerError, match=r"a-1,1 can have 2 workers at most, with core_groups=1,1"):
        check_groups(archive("a", "1,1"), 3, server())
    held = hold("b", 1)
    with pytest.raises(ServerError, match=r"a-1 can have 2 workers at most, with NEURONCORE_GROUP_SIZES=1,1,1"):
        check_groups(archive("a", "1"), 3, server(**{GROUPS: "1,1,1"}))
    held.release()
