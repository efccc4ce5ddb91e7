"""The ranges of predictions: what they hold, and how they keep a promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marina.plan.answers.answer import Recommendation
from marina.plan.answers.trials import trial_json
from marina.plan.evaluation.evaluate import HOURS_A_MONTH, Deployment, Prediction, evaluate, with_ranges
from marina.plan.evaluation.search import FINE_REQUESTS, Evaluation, SearchResult, search
from marina.plan.options.candidates import Candidate
from marina.plan.simulator.system import Service, WorkerModel, models_of
from marina.plan.simulator.uncertainty import (
    CERTAIN,
    RANGE,
    Slowdowns,
    Uncertainty,
    slowdown_that_explains,
    slowdowns_of,
)
from marina.plan.workload import Demand, Promise, Workload
from tests.marina.plan.options.places import place, traffic, variant

LOOSE = Promise(latency_ms=1000)
DOUBTFUL = Uncertainty(Slowdowns(0.0, 0.05, 8), Slowdowns(0.0, 0.1, 8))
REQUESTS = FINE_REQUESTS


def candidate(uncertainty: Uncertainty, **changes: Any) -> Candidate:
    served = place(variants=((variant()._replace(uncertainty=uncertainty, **changes),),))
    return Candidate(served, served.variants[0], ((1, 1),), 8, 1)


def ranges(made: Candidate, rate: float, promise: Promise = LOOSE) -> Prediction:
    deployment = Deployment(made, 1, [traffic(rate)], promise)
    return with_ranges(evaluate(deployment, REQUESTS), deployment, REQUESTS)


def width(prediction: Prediction, name: str) -> float:
    low, high = prediction.ranges[name]
    return high / low


def test_what_is_certain_has_no_range() -> None:
    prediction = ranges(candidate(CERTAIN), 20.0)
    assert prediction.ranges == {name: (getattr(prediction, name),) * 2 for name in ("p50", "p99", "promised")}


def test_a_range_is_as_wide_as_its_slowdowns_and_wider_under_load() -> None:
    light, heavy = ranges(candidate(DOUBTFUL), 20.0), ranges(candidate(DOUBTFUL), 400.0)
    for name, slowdowns in (("p50", DOUBTFUL.p50), ("p99", DOUBTFUL.p99)):
        low, high = (slowdowns.at(end) for end in RANGE)
        assert width(light, name) == pytest.approx(high / low, rel=0.1)
        assert width(heavy, name) > 1.2 * width(light, name)
        assert light.ranges[name][0] < getattr(light, name) < light.ranges[name][1]
    assert light.ranges["p99"] == light.ranges["promised"]
    median = Promise(latency_ms=1000, percentile=75)
    assert width(ranges(candidate(DOUBTFUL), 20.0, median), "promised") < width(light, "p99")


def test_bounds_of_estimates_and_another_speed_make_ranges_wider() -> None:
    plain, load = ranges(candidate(DOUBTFUL), 20.0), 20.0
    estimate = ranges(candidate(DOUBTFUL, bounds=(0.7, 1.4)), load)
    slower_now = ranges(candidate(Uncertainty(DOUBTFUL.p50, DOUBTFUL.p99, now=1.5)), load)
    for name in ("p50", "p99"):
        assert 1.2 * width(plain, name) < width(estimate, name) < 2 * width(plain, name)
        assert slower_now.ranges[name][0] == plain.ranges[name][0]
        assert slower_now.ranges[name][1] == pytest.approx(1.5 * plain.ranges[name][1], rel=0.1)


def test_a_promise_with_confidence_is_kept_by_the_upper_end() -> None:
    doubtful, load = candidate(DOUBTFUL), [traffic(20.0)]
    loose = evaluate(Deployment(doubtful, 1, load, LOOSE), REQUESTS)
    assert loose.sure == loose.promised
    half, most = (
        evaluate(Deployment(doubtful, 1, load, LOOSE.model_copy(update={"confidence": share})), REQUESTS)
        for share in (0.5, 0.95)
    )
    assert half.sure == pytest.approx(loose.promised, rel=0.02)
    assert most.sure == pytest.approx(ranges(doubtful, 20.0).ranges["p99"][1])
    assert most.promised == loose.promised
    between = Promise(latency_ms=(loose.promised + most.sure) / 2)
    assert search([doubtful], load, between, None, False, lambda *_: None).best
    careful = between.model_copy(update={"confidence": 0.95})
    more = search([doubtful], load, careful, None, False, lambda *_: None).best
    assert more
    assert more.figures.count > 1
    one_instance = 1.5 * HOURS_A_MONTH
    result = search([doubtful], load, careful, one_instance, False, lambda *_: None)
    assert result.best is None
    assert result.nearest
    assert result.nearest.figures.sure > between.latency_ms > result.nearest.figures.promised


def test_a_slow_machine_that_refuses_requests_does_not_keep_a_promise() -> None:
    """At 500 a second there is room, but not if the machine may be twice as slow."""
    slow = candidate(Uncertainty(Slowdowns(0.0, 0.0), Slowdowns(0.7, 0.0)))
    promise = Promise(latency_ms=100_000)
    deployment = Deployment(slow, 1, [traffic(500.0)], promise)
    prediction = evaluate(deployment, REQUESTS)
    assert prediction.keeps(promise)
    assert with_ranges(prediction, deployment, REQUESTS).ranges["p99"][1] == float("inf")
    sure = promise.model_copy(update={"confidence": 0.95})
    assert not evaluate(replace(deployment, promise=sure), REQUESTS).keeps(sure)


@pytest.mark.parametrize("least_loaded", [False, True])
def test_models_that_are_served_together_have_a_range_together(least_loaded: bool) -> None:
    """The slowest of three instances with two models, while one of them is down; requests come as a log says."""
    sure, doubtful = (variant()._replace(uncertainty=uncertainty) for uncertainty in (CERTAIN, DOUBTFUL))
    served = place(variants=((sure,), (doubtful,)))
    logged = traffic(60.0)._replace(log=np.sort(np.random.default_rng(0).random(900)) * 15)
    load, promise = [traffic(20.0), logged], Promise(latency_ms=1000, one_down=True, confidence=0.9)
    widths = []
    for variants in ((sure, sure), (sure, doubtful), (doubtful, doubtful)):
        made = Candidate(served, variants, ((1, 1), (1, 1)), 8, 1)
        deployment = Deployment(made, 3, load, promise, least_loaded)
        prediction = with_ranges(evaluate(deployment, 4000), deployment, 4000)
        low, high = prediction.ranges["promised"]
        assert low <= prediction.promised <= prediction.sure <= 1.02 * high  # chance differs
        widths.append(width(prediction, "promised"))
    assert 1.0 == widths[0] < widths[1] < widths[2]


def test_the_answer_has_the_range() -> None:
    made, load = candidate(DOUBTFUL), [traffic(20.0)]
    figures = ranges(made, 20.0)
    best = Evaluation(made, figures)
    workload = Workload(models=(Demand(name="m", rate=20),), promise=Promise(latency_ms=figures.promised * 1.01))
    answer = Recommendation(workload, load, SearchResult(best=best), None, {}, "")
    low, high = figures.ranges["promised"]
    assert f"({low:.3g} to {high:.3g})" in answer.sentence
    document = trial_json(best)
    assert document["ranges"]["p99"] == [round(low, 4), round(high, 4)]
    assert trial_json(best._replace(figures=evaluate(Deployment(made, 1, load, LOOSE), 10)))["ranges"] == {}


def test_slower_costs_take_as_many_times_as_long() -> None:
    costs = variant().costs[1]
    slower = costs.slower(2.0)
    first, second = (models_of([each], [Service()]) for each in (costs, slower))
    for name in ("batch", "request", "front", "outside"):
        assert getattr(second, name) == pytest.approx(2 * getattr(first, name))
    np.testing.assert_allclose(second.times, 2 * first.times)
    np.testing.assert_allclose(second.again, 2 * first.again)
    assert slower.spread == costs.spread
    graphs_alone = costs.slower(1.0, graphs=3.0)
    assert graphs_alone == costs._replace(times=graphs_alone.times, again=graphs_alone.again)
    assert graphs_alone.times == {shape: 3 * time for shape, time in costs.times.items()}
    assert WorkerModel({}, {}).slower(3.0) == WorkerModel({}, {})


def test_the_next_slowdown_of_a_sample_is_in_its_range() -> None:
    """Of many samples of eight loads, 90 % of the ninth values are between the slowdowns of 5 and 95 %."""
    rng, samples = np.random.default_rng(0), 3000
    inside = 0
    for _ in range(samples):
        *sample, following = np.exp(rng.normal(0.1, 0.2, 9))
        slowdowns = slowdowns_of([float(value) for value in sample], 8)
        low, high = (slowdowns.at(end) for end in RANGE)
        inside += low <= following <= high
    assert inside / samples == pytest.approx(0.9, abs=0.015)


def test_a_slowdown_explains_a_latency() -> None:
    curve = np.array([5.0, 10.0, 9.0, 40.0])  # chance makes a curve fall
    slowdowns = (0.5, 1.0, 1.1, 2.0)
    assert slowdown_that_explains(7.0, slowdowns, curve) == pytest.approx(0.7, rel=0.02)
    assert slowdown_that_explains(20.0, slowdowns, curve) == pytest.approx((1.1 * 2.0) ** 0.5)
    assert slowdown_that_explains(1000.0, slowdowns, curve) == pytest.approx(2.0)
    assert slowdown_that_explains(0.1, slowdowns, curve) == pytest.approx(0.5)
