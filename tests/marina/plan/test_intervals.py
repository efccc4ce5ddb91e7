"""The ranges of predictions: what they hold, and how they keep a promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marina.plan.candidates import Candidate
from marina.plan.evaluate import evaluate, with_intervals
from marina.plan.intervals import Intervals
from marina.plan.search import search
from marina.plan.simulator.system import Service, WorkerModel, models_of
from marina.plan.uncertainty import CERTAIN, VALUES, Uncertainty, next_factors
from marina.plan.workload import Promise
from tests.marina.plan.places import place, traffic, variant

LOOSE = Promise(latency_ms=1000)
DOUBTFUL = Uncertainty(speed=(0.9, 1.0, 1.1), p50=(0.8, 1.0, 1.25), p99=(0.5, 1.0, 2.0))


def candidate(uncertainty: Uncertainty) -> Candidate:
    served = place(variants=((variant()._replace(uncertainty=uncertainty),),))
    return Candidate(served, served.variants[0], ((1, 1),), 8, 1)


def intervals(uncertainty: Uncertainty, rate: float) -> Intervals:
    made = candidate(uncertainty)
    prediction = evaluate(made, 1, [traffic(rate)], LOOSE, 5000)
    found = with_intervals(prediction, made, [traffic(rate)], LOOSE, least_loaded=False).intervals
    assert found
    return found


def test_what_is_certain_has_only_the_chance_of_arrivals() -> None:
    for (low, high), width in zip(intervals(CERTAIN, 20.0), (1.1, 1.3, 1.5, 1.5), strict=True):
        assert low < high < low * width


def test_a_range_is_as_wide_as_the_factors_and_wider_under_load() -> None:
    certain, light, heavy = intervals(CERTAIN, 20.0), intervals(DOUBTFUL, 20.0), intervals(DOUBTFUL, 400.0)
    for name, width in (("p50", 1.25 / 0.8), ("p99", 2.0 / 0.5)):
        (low, high), (low_alone, high_alone) = getattr(light, name), getattr(certain, name)
        assert low < low_alone < high_alone < high
        assert 0.8 * width < high / low < 1.6 * width
    assert heavy.p50[1] / heavy.p50[0] > light.p50[1] / light.p50[0]
    assert light.p99 == light.promised


def test_a_promise_with_confidence_is_kept_by_the_upper_end() -> None:
    doubtful, load = candidate(DOUBTFUL), [traffic(20.0)]
    loose = evaluate(doubtful, 1, load, LOOSE, 5000)
    assert loose.sure == loose.promised
    sure = [evaluate(doubtful, 1, load, LOOSE.model_copy(update={"confidence": share}), 5000) for share in (0.5, 0.95)]
    assert loose.promised <= sure[0].sure < sure[1].sure
    assert sure[1].promised == loose.promised
    between = Promise(latency_ms=(loose.promised + sure[1].sure) / 2)
    assert search([doubtful], load, between, None, False, lambda *_: None).best
    careful = between.model_copy(update={"confidence": 0.95})
    assert search([doubtful], load, careful, None, False, lambda *_: None).best is None


def test_slower_costs_take_as_many_times_as_long() -> None:
    costs = variant().costs[1]
    slower = costs.slower(2.0)
    first, second = (models_of([each], [Service()]) for each in (costs, slower))
    for name in ("batch", "request", "front", "arriving"):
        assert getattr(second, name) == pytest.approx(2 * getattr(first, name))
    np.testing.assert_allclose(second.times, 2 * first.times)
    np.testing.assert_allclose(second.again, 2 * first.again)
    assert slower.spread == costs.spread
    assert WorkerModel({}, {}).slower(3.0) == WorkerModel({}, {})


def test_estimates_may_have_any_factor_of_their_bounds() -> None:
    speeds = DOUBTFUL.with_speeds(0.7, 1.4).speed
    assert 0.63 < speeds[0] < 0.75
    assert 1.25 < speeds[-1] < 1.54
    assert DOUBTFUL.with_speeds(0.7, 1.4).p99 == DOUBTFUL.p99
    assert CERTAIN.noise == 0.0
    assert Uncertainty(speed=(0.9, 1.0, 1.0, 1.05)).noise == pytest.approx(0.085)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.floats(-0.5, 0.5), st.floats(0.001, 0.5))
def test_the_next_value_of_a_sample_is_in_its_range(seed: int, mean: float, deviation: float) -> None:
    """Of many samples of five, 90 % of the sixth values are between the factors of 5 and 95 %."""
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(200):
        *sample, following = rng.normal(mean, deviation, 6)
        low, high = np.quantile(np.log(next_factors([float(value) for value in sample])), (0.05, 0.95))
        inside += low <= following <= high
    assert 0.8 <= inside / 200 <= 0.98


def test_factors_of_a_fit_are_wider_than_its_residuals() -> None:
    logs = [0.1, -0.1, 0.05, -0.05, 0.0]
    plain, fitted = next_factors(logs), next_factors(logs, fitted=2.0)
    assert len(plain) == VALUES
    assert plain[VALUES // 2] == pytest.approx(1.0)
    assert fitted[-1] > plain[-1] > math.exp(0.1)
