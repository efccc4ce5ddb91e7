"""Whether the choice of a plan is the best of a sweep: every configuration of a grid is predicted, and measured."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.verify.cases import Case
from benchmarks.verify.measure import capacity, measure, measure_closed, predict, serve, texts_of
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.console import Progress
from marina.plan.candidates import Candidate, candidates_of
from marina.plan.places import Calibrated, place_here
from marina.plan.search import search
from marina.plan.workload import Promise, Traffic

BATCH_SIZES, DELAYS_MS = (1, 4, 16, 64), (1, 5)
SHARE = 0.6  # of the best predicted throughput: the rate of the open loops
CONNECTIONS = 64  # of the closed loops
LOOSE_MS = 10_000.0  # a promise that all of them keep, so that the plan's choice is the fastest
KIND = "mix"


@dataclass(frozen=True)
class Swept:
    """One configuration.

    Attributes:
        case: how the model is served.
        chosen: whether it is the plan's choice.
        rate, p99: predicted: requests per second of a closed loop, and the p99 in milliseconds of an open loop.
        rates, p99s: the same, measured in each round.
    """

    case: Case
    chosen: bool
    rate: float
    p99: float
    rates: list[float]
    p99s: list[float]


def sweep(
    model: Calibrated, server: BenchmarkServer, cores: int, rounds: int, progress: Progress
) -> tuple[float, list[Swept]]:
    """Measure a grid of configurations and the plan's choice, in interleaved rounds; returns the rate of open loops."""
    texts = [texts_of(model, KIND)]
    cases = [
        _case(model, number, groups, batch_size, delay)
        for number, (groups, (batch_size, delay)) in enumerate(
            itertools.product([(cores,), (1,) * cores], itertools.product(BATCH_SIZES, DELAYS_MS))
        )
        if batch_size > 1 or delay == DELAYS_MS[0]
    ]
    throughputs = {case.number: capacity(case, [model], texts, CONNECTIONS) for case in cases}
    rate = SHARE * max(throughputs.values())
    chosen = _choice(model, Traffic(rate, 1, texts[0].tokens))
    best = _case(model, len(cases) * 2, chosen.groups[0], chosen.batch_size, chosen.delay_ms)
    alike = [case for case in cases if _settings(case) == _settings(best)]
    if not alike:
        cases.append(best)
        throughputs[best.number] = capacity(best, [model], texts, CONNECTIONS)
    found = [
        Swept(
            case=case,
            chosen=_settings(case) == _settings(best),
            rate=throughputs[case.number],
            p99=predict(case, [model], texts, rate)[0].p99,
            rates=[],
            p99s=[],
        )
        for case in cases
    ]
    for step, one in enumerate(found * rounds):
        progress(f"sweep: {one.case.describe()}", step, len(found) * rounds)
        endpoints = serve(one.case, [model], server)
        one.p99s.append(measure(one.case, endpoints, texts, rate)[0].p99)
        one.rates.append(measure_closed(one.case, endpoints, texts, CONNECTIONS)[0].rate)
    return rate, found


def _case(model: Calibrated, number: int, groups: tuple[int, ...], batch_size: int, delay_ms: int) -> Case:
    return Case(number, (model.spec.name,), (1,), (KIND,), groups, batch_size, delay_ms, SHARE)


def _settings(case: Case) -> tuple[tuple[int, ...], int, int]:
    """What makes two configurations different; without batches there is no delay."""
    return case.groups, case.batch_size, case.delay_ms if case.batch_size > 1 else 0


def _choice(model: Calibrated, traffic: Traffic) -> Candidate:
    """What `marina plan` chooses for this traffic, with the load generator on the same machine."""
    place = place_here([model], None, client_here=True)
    promise = Promise(latency_ms=LOOSE_MS)
    found = search(candidates_of(place), [traffic], promise, None, False, lambda *_: None).best
    assert found  # an open loop below capacity is answered
    return found.candidate


COLUMNS = ["groups", "batch", "delay", "p99 said", "p99 ms", "throughput said", "requests/s", ""]


def rows(swept: Sequence[Swept]) -> list[list[str]]:
    """A table, the least measured p99 first."""
    return [
        [
            ",".join(map(str, one.case.groups)),
            str(one.case.batch_size),
            str(one.case.delay_ms),
            f"{one.p99:.1f}",
            f"{statistics.median(one.p99s):.1f}",
            f"{one.rate:.0f}",
            f"{statistics.median(one.rates):.0f}",
            "chosen" if one.chosen else "",
        ]
        for one in sorted(swept, key=lambda one: statistics.median(one.p99s))
    ]


def summary(rate: float, swept: Sequence[Swept]) -> str:
    """How far the choice is from the best measured, and how far rounds of one configuration are apart."""
    (chosen,) = (one for one in swept if one.chosen)
    latencies = [statistics.median(one.p99s) for one in swept]
    most = max(swept, key=lambda one: one.rate)  # what would be chosen for throughput
    throughputs = [statistics.median(one.rates) for one in swept]
    apart = statistics.median((max(one.p99s) - min(one.p99s)) / statistics.fmean(one.p99s) for one in swept)
    above = statistics.median(chosen.p99s) / min(latencies) - 1
    below = 1 - statistics.median(most.rates) / max(throughputs)
    return (
        f"at {rate:.0f} requests per second the choice has a p99 {above:.1%} above the best of {len(swept)} measured "
        f"ones (rounds are {apart:.0%} apart); the configuration with the highest predicted throughput has {below:.1%} "
        "less than the best measured"
    )
