"""Choices over a day, and when instances are missing."""

from __future__ import annotations

import pytest

from marina.plan.evaluation.evaluate import Deployment
from marina.plan.evaluation.fleet import by_hour, disrupt
from marina.plan.evaluation.limits import Reach
from marina.plan.options.candidates import Candidate
from marina.plan.workload import Demand, Promise, Workload
from tests.marina.plan.options.places import place, traffic, variant

PROMISE = Promise(latency_ms=50)


def candidate() -> Candidate:
    return Candidate(place(), (variant(),), ((1, 1),), 8, 1)


def test_a_day_needs_fewer_instances_than_its_peak() -> None:
    models = (Demand(name="m", curve={0: 10, 12: 100, 20: 10}),)
    reach = Reach(rate=120, per_minute=40 * 60, under_way=3)
    counts = by_hour(Workload(models=models, promise=PROMISE), 100, reach, 3)
    assert (counts[12], counts[0], counts[22], counts[6]) == (3, 1, 1, 2)
    # of four, three take the 120 requests a second
    one_down = Workload(models=models, promise=PROMISE.model_copy(update={"one_down": True}))
    assert by_hour(one_down, 100, reach._replace(per_minute=30 * 60), 4) == [one + 1 for one in counts]
    assert by_hour(Workload(models=(Demand(name="m", rate=5),), promise=PROMISE), 5, reach, 3) == []


@pytest.mark.parametrize("count", [2, 4])
def test_no_hour_needs_more_instances_than_the_peak(count: int) -> None:
    models = (Demand(name="m", curve={0: 90, 12: 100}),)
    workload = Workload(models=models, promise=PROMISE.model_copy(update={"one_down": True}))
    assert max(by_hour(workload, 100, Reach(110, 110 * 60 / count, 1), count)) == count


def test_a_curve_goes_on_over_midnight() -> None:
    demand = Demand(name="m", curve={6: 10, 18: 70})
    assert demand.rate_at(0) == pytest.approx(40)
    assert demand.rate_at(12) == pytest.approx(40)
    with pytest.raises(ValueError, match="0 to 24"):
        Demand(name="m", curve={25: 1})


@pytest.mark.parametrize("least", [False, True])
def test_a_lost_instance_loses_what_it_has_and_an_upgrade_nothing(least: bool) -> None:
    deployment = Deployment(candidate(), 3, [traffic(300)], PROMISE, least)
    lost, upgraded = (disrupt(deployment, upgrade=upgrading) for upgrading in (False, True))
    assert lost
    assert upgraded
    assert 0 <= lost.lost < 20
    assert upgraded.lost == 0
    # with two of three instances, clients wait as if two served all the time
    assert lost.latency_ms == pytest.approx(upgraded.latency_ms, rel=0.2)


def test_one_instance_has_nobody_to_take_its_place() -> None:
    assert disrupt(Deployment(candidate(), 1, [traffic(30)], PROMISE), upgrade=False) is None
