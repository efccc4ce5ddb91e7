"""The search against trying everything."""

from __future__ import annotations

import pytest

from marina.plan.answers.answer import Recommendation, first_change
from marina.plan.answers.picture import picture
from marina.plan.answers.trials import describe
from marina.plan.evaluation.bounds import latency_alone, min_instances
from marina.plan.evaluation.evaluate import Deployment, evaluate
from marina.plan.evaluation.limits import find_reach, largest_request
from marina.plan.evaluation.search import FINE_REQUESTS, SearchResult, cost, search
from marina.plan.options.candidates import candidates_of
from marina.plan.workload import Demand, Promise, Workload
from tests.marina.plan.options.places import place, traffic, variant


def quiet(*_: object) -> None:
    pass


def found_for(rate: float, latency_ms: float, places: list[object] | None = None, **promise: object) -> SearchResult:
    candidates = [one for own in places or [place()] for one in candidates_of(own)]  # type: ignore[arg-type]
    asked = Promise.model_validate({"latency_ms": latency_ms, **promise})
    return search(candidates, [traffic(rate)], asked, None, False, quiet)


@pytest.mark.parametrize(("rate", "latency_ms"), [(50.0, 30.0), pytest.param(900.0, 40.0, marks=pytest.mark.long)])
def test_the_choice_is_the_cheapest_of_all(rate: float, latency_ms: float) -> None:
    places = [place(), place("small", 0.3, cores=1, variants=((variant(cores=(1,)),),))]
    asked = Promise(latency_ms=latency_ms)
    best = found_for(rate, latency_ms, [*places]).best
    assert best is not None
    assert best.figures.keeps(asked)
    price = cost(best.candidate, best.figures.count)
    for own in places:
        for candidate in candidates_of(own):
            count = int((price - 1e-6) / (own.per_hour or 1))
            if count >= min_instances(candidate, [traffic(rate)]):
                deployment = Deployment(candidate, count, [traffic(rate)], asked)
                assert not evaluate(deployment, FINE_REQUESTS).keeps(asked)


def test_bounds_are_never_better_than_simulations() -> None:
    own = [traffic(300)]
    for candidate in list(candidates_of(place()))[::5]:
        light = evaluate(Deployment(candidate, 50, own, Promise(latency_ms=1)), 4000)
        assert latency_alone(candidate, own, 99) <= light.p99 * 1.001
        # with fewer instances than the bound, the queue grows without end
        least = min_instances(candidate, [traffic(3000)])
        if least > 1:
            deployment = Deployment(candidate, least - 1, [traffic(3000)], Promise(latency_ms=1000))
            figures = evaluate(deployment, 20_000)
            assert figures.utilisation > 0.95


def test_none_keeps_an_impossible_promise() -> None:
    found = found_for(50, 0.5)
    assert found.best is None
    assert found.pruned == found.candidates
    asked = Workload(models=(Demand(name="m", rate=50),), promise=Promise(latency_ms=0.5))
    answer = Recommendation(asked, [], found, None, {}, "")
    assert answer.sentence.startswith("None keeps p99 <= 0.5 ms")
    assert picture(answer).startswith(b"<?xml")


def test_a_promise_that_no_number_of_machines_keeps_is_said_to_be_such() -> None:
    load, candidates = [traffic(50)], list(candidates_of(place()))
    alone_ms = min(latency_alone(candidate, load, 99) for candidate in candidates)
    deployments = [Deployment(candidate, 100, load, Promise(latency_ms=1)) for candidate in candidates]
    light_ms = min(evaluate(deployment, 4000).p99 for deployment in deployments)
    assert alone_ms < light_ms
    promise = Promise(latency_ms=(alone_ms + light_ms) / 2)
    result = search(candidates, load, promise, None, False, quiet)
    assert result.best is None
    assert result.nearest
    assert result.light_load_ms == pytest.approx(light_ms, rel=0.1)
    workload = Workload(models=(Demand(name="m", rate=50),), promise=promise)
    answer = Recommendation(workload, load, result, None, {}, "")
    assert answer.sentence.startswith(f"No number of machines keeps {promise}: hardly loaded, the best has a p99 of ")
    assert answer.as_json()["light_load_ms"] == pytest.approx(light_ms, rel=0.1)
    assert answer.binds.startswith("The time of one request alone binds")
    # but a machine that is too dear may keep it
    dear = [*candidates, *candidates_of(place("fast", 100.0, variants=((variant(0.5),),)))]
    limited = search(dear, load, promise, 730 * 20, False, quiet)
    assert limited.trials
    assert limited.light_load_ms is None
    assert limited.over_budget == 73_000
    cheapest = search(candidates, load, Promise(latency_ms=1000), 1, False, quiet)
    answer = Recommendation(workload, load, cheapest, None, {}, "")
    assert "within the budget: the cheapest costs 730 USD" in answer.sentence


@pytest.mark.long
def test_one_more_instance_is_paid_for_while_one_may_be_down() -> None:
    alone, safe = found_for(50, 40).best, found_for(50, 40, one_down=True).best
    assert alone and safe
    assert (alone.figures.count, safe.figures.count) == (1, 2)


def test_a_budget_is_kept() -> None:
    asked = Promise(latency_ms=40)
    candidates = list(candidates_of(place()))
    assert search(candidates, [traffic(900)], asked, 730 * 1.5, False, quiet).best is None
    assert search(candidates, [traffic(900)], asked, 730 * 20, False, quiet).best is not None


@pytest.mark.long
def test_an_answer_says_how_far_it_carries() -> None:
    asked = Workload(models=(Demand(name="m", rate=100),), promise=Promise(latency_ms=40))
    own, found = [traffic(100)], found_for(100, 40)
    assert found.best
    candidate, figures = found.best
    reach = find_reach(Deployment(candidate, 1, own, asked.promise))
    assert evaluate(Deployment(candidate, 1, [traffic(reach.rate)], asked.promise), 30_000).promised < 44
    assert reach.rate > 100
    most = largest_request(candidate, own[0], 1.0, 4096)
    assert 1 < most < 4096
    answer = Recommendation(asked, own, found, reach, {"m": most}, first_change(found.best, own, asked))
    document = answer.as_json()
    assert document["choice"]["count"] == figures.count
    (theirs,) = document["InferenceRecommendations"]
    assert theirs["Metrics"]["MaxInvocations"] == round(reach.rate * 60)
    assert describe(found.best) in answer.sentence
    assert answer.rows()[0][1] == "yes"
    assert any(line.startswith("Machines: 1.") for line in answer.lines())
    assert picture(answer).startswith(b"<?xml")


def test_a_candidate_that_was_tried_on_several_instances_counts_once() -> None:
    asked, own = Promise(latency_ms=30), [traffic(2000)]
    found = search([next(candidates_of(place()))], own, asked, None, False, quiet)
    assert len({trial.figures.count for trial in found.trials}) > 1
    answer = Recommendation(Workload(models=(Demand(name="m", rate=2000),), promise=asked), own, found, None, {}, "")
    assert answer.lines()[-1] == "1 candidates: 0 left out by bounds, 1 simulated."
