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
from marina.plan.evaluation.search import search
from marina.plan.options.candidates import Candidate, candidates_of
from marina.plan.options.places import Calibrated, place_here
from marina.plan.workload import Promise, Traffic
from marina.server.hosts.table import HOSTS

BATCH_SIZES = (1, 4, 16, 64)
SHARE = 0.6  # of the best predicted throughput: the rate of the open loops
CONNECTIONS = 64  # of the closed loops
LOOSE_MS = 10_000.0  # a promise that all configurations keep, so that the plan's choice is the fastest
KIND = "mix"


@dataclass(frozen=True)
class SweepEntry:
    """One configuration.

    Attributes:
        case: how the model is served.
        chosen: whether it is the plan's choice.
        rate, p99: predicted requests per second of a closed loop, and predicted p99 in milliseconds of an open loop.
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
) -> tuple[float, list[SweepEntry]]:
    """Measure a grid of configurations and the plan's choice, in interleaved rounds; returns the rate of open loops."""
    texts, delays = [texts_of(model, KIND)], HOSTS[model.host].delays_ms[::2]
    cases = [
        _case(model, number, groups, batch_size, delay)
        for number, (groups, (batch_size, delay)) in enumerate(
            itertools.product([(cores,), (1,) * cores], itertools.product(BATCH_SIZES, delays))
        )
        if batch_size > 1 or delay == delays[0]
    ]
    throughputs = {case.number: capacity(case, [model], texts, CONNECTIONS) for case in cases}
    rate = SHARE * max(throughputs.values())
    choice = _choice(model, Traffic(rate, 1, texts[0].tokens))
    choice_case = _case(model, len(cases) * 2, choice.groups[0], choice.batch_size, choice.delay_ms)
    same_settings = [case for case in cases if _settings(case) == _settings(choice_case)]
    if not same_settings:
        cases.append(choice_case)
        throughputs[choice_case.number] = capacity(choice_case, [model], texts, CONNECTIONS)
    entries = [
        SweepEntry(
            case=case,
            chosen=_settings(case) == _settings(choice_case),
            rate=throughputs[case.number],
            p99=predict(case, [model], texts, rate)[0].figures.p99,
            rates=[],
            p99s=[],
        )
        for case in cases
    ]
    for step, entry in enumerate(entries * rounds):
        progress(f"sweep: {entry.case.describe()}", step, len(entries) * rounds)
        endpoints = serve(entry.case, [model], server)
        entry.p99s.append(measure(entry.case, endpoints, texts, rate)[0].p99)
        entry.rates.append(measure_closed(entry.case, endpoints, texts, CONNECTIONS)[0].rate)
    return rate, entries


def _case(model: Calibrated, number: int, groups: tuple[int, ...], batch_size: int, delay_ms: int) -> Case:
    return Case(number, (model.spec.name,), (1,), (KIND,), groups, batch_size, delay_ms, SHARE)


def _settings(case: Case) -> tuple[tuple[int, ...], int, int]:
    """The settings in which two configurations differ; without batches there is no delay."""
    return case.groups, case.batch_size, case.delay_ms if case.batch_size > 1 else 0


def _choice(model: Calibrated, traffic: Traffic) -> Candidate:
    """The choice of `marina plan` for this traffic, with the load generator on the same machine."""
    machine_type = place_here([model], None, client_here=True)
    promise = Promise(latency_ms=LOOSE_MS)
    best = search(candidates_of(machine_type), [traffic], promise, None, False, lambda *_: None).best
    assert best  # an open loop below capacity is answered
    return best.candidate


COLUMNS = ["groups", "batch", "delay", "p99 said", "p99 ms", "throughput said", "requests/s", ""]


def rows(entries: Sequence[SweepEntry]) -> list[list[str]]:
    """A table, in the order of the measured p99, the lowest first."""
    return [
        [
            ",".join(map(str, entry.case.groups)),
            str(entry.case.batch_size),
            str(entry.case.delay_ms),
            f"{entry.p99:.1f}",
            f"{statistics.median(entry.p99s):.1f}",
            f"{entry.rate:.0f}",
            f"{statistics.median(entry.rates):.0f}",
            "chosen" if entry.chosen else "",
        ]
        for entry in sorted(entries, key=lambda entry: statistics.median(entry.p99s))
    ]


def summary(rate: float, entries: Sequence[SweepEntry]) -> str:
    """The distances of the choice from the best measured figures, and the spread of rounds of a configuration."""
    (choice,) = (entry for entry in entries if entry.chosen)
    latencies = [statistics.median(entry.p99s) for entry in entries]
    highest_predicted = max(entries, key=lambda entry: entry.rate)  # the choice for throughput
    throughputs = [statistics.median(entry.rates) for entry in entries]
    rounds_spread = statistics.median(
        (max(entry.p99s) - min(entry.p99s)) / statistics.fmean(entry.p99s) for entry in entries
    )
    choice_excess = statistics.median(choice.p99s) / min(latencies) - 1
    throughput_shortfall = 1 - statistics.median(highest_predicted.rates) / max(throughputs)
    return (
        f"at {rate:.0f} requests per second the choice has a p99 {choice_excess:.1%} above the best of {len(entries)} "
        f"measured ones (rounds are {rounds_spread:.0%} apart); the configuration with the highest predicted "
        f"throughput has {throughput_shortfall:.1%} less than the best measured"
    )
