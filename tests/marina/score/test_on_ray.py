"""How many actors a job has on a Ray cluster, without Ray."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from marina.score.on_ray import RayPool


def pool_of(cores: int, *nodes: int) -> Any:
    """A pool whose actors need so many CPUs each, on nodes that have so many."""
    pool: Any = object.__new__(RayPool)
    listed = [{"Alive": True, "Resources": {"CPU": float(count)}} for count in nodes]
    handle = SimpleNamespace(ready=SimpleNamespace(remote=object))
    pool._ray = SimpleNamespace(nodes=lambda: [*listed, {"Alive": False, "Resources": {"CPU": 64.0}}])
    pool._actors = SimpleNamespace(cores=cores, resource="CPU")
    pool._actor_class = SimpleNamespace(remote=lambda *_: handle)
    pool._setup = pool._archive = None
    pool._numbers, pool._waits = itertools.count(), False
    pool._handles, pool._pending, pool.assigned = {}, {}, {}
    return pool


@pytest.mark.parametrize(
    ("cores", "nodes", "actors"), [(2, (4, 2), 3), (2, (3, 3), 2), (1, (), 1), (4, (2, 2), 1), (4, (2, 4), 1)]
)
def test_a_node_has_as_many_actors_as_it_has_room_for(cores: int, nodes: tuple[int, ...], actors: int) -> None:
    pool = pool_of(cores, *nodes)
    pool.grow()
    assert len(pool._handles) == actors


def test_a_job_says_once_that_it_waits_for_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    pool = pool_of(4, 2, 2)
    pool.grow()
    pool.grow()
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.count("no node of the cluster has 4 CPU, which an actor needs; waiting for one") == 1
