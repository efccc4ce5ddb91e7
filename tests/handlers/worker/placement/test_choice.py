"""Which core group a worker takes, given those of the others."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.placement.choice import ExclusiveGroup, GroupSizes, worker_of
from handlers.worker.placement.groups import Group
from handlers.worker.placement.leases import Holder, NoGroup

ME = worker_of("a", "1")
ENVIRONMENT = "NEURONCORE_GROUP_SIZES"


def choose(sizes: GroupSizes, holders: list[Holder], cores: int = 8, worker: Holder = ME) -> Group | NoGroup:
    return ExclusiveGroup(worker, tuple(range(cores)), sizes, wait_s=30).choose(holders)


def fill(sizes: GroupSizes, cores: int, worker: Holder = ME) -> list[Holder]:
    """Workers that come one after the other, until one finds no group."""
    holders: list[Holder] = []
    while isinstance(group := choose(sizes, holders, cores, worker), tuple) and not isinstance(group, NoGroup):
        holders.append(worker._replace(cores=group, pid=len(holders)))
    return holders


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms())
def test_every_group_is_taken_once_however_workers_come_and_go(sizes: list[int], chance: random.Random) -> None:
    asked = GroupSizes(tuple(sizes))
    holders = fill(asked, sum(sizes))
    for _ in range(8):
        assert sorted(len(holder.cores) for holder in holders) == sorted(sizes)
        held = [core for holder in holders for core in holder.cores]
        assert sorted(held) == list(range(sum(sizes)))
        holders.remove(chance.choice(holders))
        group = choose(asked, holders, sum(sizes))
        assert not isinstance(group, NoGroup)
        holders.append(ME._replace(cores=group))


def test_groups_of_unequal_sizes() -> None:
    """The example of AWS: 3, 4 and 1 of 8 cores. The largest is placed first, so that it stays on its own chip."""
    assert [holder.cores for holder in fill(GroupSizes((3, 4, 1)), 8)] == [(4, 5, 6), (0, 1, 2, 3), (7,)]


def test_a_worker_without_a_group_says_what_to_scale_to() -> None:
    asked = GroupSizes((1, 1, 1, 1), (1,), True, ENVIRONMENT)
    holders = fill(asked, 8)
    surplus = choose(asked, holders)
    assert isinstance(surplus, NoGroup)
    assert surplus.wait_s > 600
    assert "no core group is left for this worker: NEURONCORE_GROUP_SIZES=1,1,1,1 on 8 cores (0-7)" in surplus.reason
    assert "; scale it to 4 workers: marina scale a 4, or PUT /models/a/1?min_worker=4&max_worker=4" in surplus.reason
    other = choose(asked, [holder._replace(model="b") for holder in holders])
    assert isinstance(other, NoGroup)
    assert other.reason.endswith("; scale other models down, or unregister this one")


def test_a_group_list_longer_than_the_machine_is_no_reason_to_wait_for_others() -> None:
    holders = fill(GroupSizes((2, 2, 2)), 4)
    assert len(holders) == 2
    surplus = choose(GroupSizes((2, 2, 2)), holders, 4)
    assert isinstance(surplus, NoGroup)
    assert "scale it to 2 workers" in surplus.reason


def test_groups_that_do_not_fit_together_are_no_reason_to_start_none() -> None:
    for sizes in ((1, 4), (4, 1)):
        asked = GroupSizes(sizes, sizes)
        holders = fill(asked, 4)
        assert [holder.cores for holder in holders] == [(0, 1, 2, 3)]
        surplus = choose(asked, holders, 4)
        assert isinstance(surplus, NoGroup)
        assert surplus.reason.startswith("no core group is left for this worker: core_groups=")
        assert "scale it to 1 workers" in surplus.reason
    # of the groups of a server, a worker takes none that is too large for it
    surplus = choose(GroupSizes((1, 4), (1,), True, ENVIRONMENT), [], 4)
    assert isinstance(surplus, NoGroup)
    assert surplus.reason.startswith("no core group is left for this worker: NEURONCORE_GROUP_SIZES=1,4 on 4 cores")


def test_a_worker_waits_for_the_cores_of_others_and_names_them() -> None:
    other = Holder((0, 1, 2), "b", 7, "1", server="another")
    waiting = choose(GroupSizes((2,)), [other], cores=4)
    assert isinstance(waiting, NoGroup)
    assert waiting.wait_s == 30
    assert "held are 0-2 by b (pid 7)" in waiting.reason


def test_models_of_a_server_share_its_groups_and_take_their_own_sizes_first() -> None:
    asked = GroupSizes((1, 4, 1), (4,), True, ENVIRONMENT)
    first = choose(asked, [])
    assert first == (0, 1, 2, 3)
    holders = [ME._replace(cores=first)]
    b = worker_of("b", "1")
    assert choose(asked._replace(preferred=(1,)), holders, worker=b) == (4,)
    # a second version of a model takes from the same groups, and one of another server does not
    assert choose(asked, holders, worker=ME._replace(version="2")) == (4,)
    assert choose(asked, holders, worker=ME._replace(server="another")) == (4, 5, 6, 7)


def test_a_second_version_has_groups_of_its_own_if_the_archive_names_them() -> None:
    holders = fill(GroupSizes((2,)), 8)
    assert choose(GroupSizes((2,)), holders, worker=ME._replace(version="2")) == (2, 3)
    assert isinstance(choose(GroupSizes((2,)), holders), NoGroup)


def test_without_groups_every_worker_takes_a_core() -> None:
    assert len(fill(GroupSizes(None), 5)) == 5
