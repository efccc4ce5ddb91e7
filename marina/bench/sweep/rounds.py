"""The harness: measures strategies in rounds, one strategy at a time, in a different order in each round.

Other activity on the machine changes over time. Every strategy is therefore measured in every round, and
figures are compared within rounds.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from handlers.worker.errors import WorkerError
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase
from marina.bench.report.results import Configuration, Entry
from marina.bench.sweep.journal import Journal
from marina.console import Progress
from marina.errors import MarinaError
from marina.spec import Spec

# measures a workload; returns the fields of the configuration that are known only after it, and the figures
Measure = Callable[[LoadCase], tuple[Configuration, Measurement]]


@dataclass(frozen=True)
class Strategy:
    """One way to answer requests, and the workloads to put on it.

    Attributes:
        name: name for progress and error messages.
        configuration: fields that distinguish it from other strategies; they override the fields that `start` reports.
        workloads: workloads to measure; all are measured after one start, in an order that differs between rounds.
        start: prepares the strategy, and cleans up at the end of the block. MarinaError or WorkerError if it cannot.
        spec: spec that is served, for the journal; rounds of a strategy without a spec are not stored.
    """

    name: str
    configuration: Configuration
    workloads: Sequence[LoadCase]
    start: Callable[[], AbstractContextManager[Measure]]
    spec: Spec | None = None


def measure_rounds(
    strategies: Sequence[Strategy],
    rounds: int,
    progress: Progress,
    journal: Journal | None = None,
    leave_out_failures: bool = False,
) -> tuple[list[Entry], list[str]]:
    """Measure every workload of every strategy in every round.

    Args:
        strategies: strategies in the order of the entries.
        rounds: number of rounds.
        progress: called with the current step and the remaining time.
        journal: stores rounds; stored rounds are not measured again.
        leave_out_failures: continue without strategies that do not start.

    Returns:
        One entry per strategy and workload, each with all rounds; and one line per strategy that is left out.

    Raises:
        MarinaError, WorkerError: a strategy does not start and is not left out, or a request is not answered.
    """
    clock = _Clock(rounds * sum(len(strategy.workloads) for strategy in strategies))
    measured: dict[tuple[int, int], list[tuple[Configuration, Measurement]]] = defaultdict(list)
    failed: dict[int, str] = {}
    for number in range(rounds):
        rng = random.Random(number)
        for strategy_index in rng.sample(range(len(strategies)), len(strategies)):
            strategy = strategies[strategy_index]
            missing = []
            for workload_index, workload in enumerate(strategy.workloads):
                stored_round = journal.find(strategy.spec, workload, number) if journal and strategy.spec else None
                if stored_round:
                    measured[strategy_index, workload_index].append(stored_round)
                    clock.skip(1)
                else:
                    missing.append(workload_index)
            if not missing or strategy_index in failed:
                clock.skip(len(missing))
                continue
            title = f"round {number + 1} of {rounds}: {strategy.name}"
            progress(f"{title}, starting{clock.time_left()}", clock.done, clock.steps)
            with ExitStack() as stack:
                try:
                    measure = stack.enter_context(strategy.start())
                except (MarinaError, WorkerError) as error:
                    if not leave_out_failures:
                        raise
                    failed[strategy_index] = str(error)
                    clock.skip(len(missing))
                    continue
                for workload_index in rng.sample(missing, len(missing)):
                    workload = strategy.workloads[workload_index]
                    progress(f"{title}, {workload.load.describe()}{clock.time_left()}", clock.done, clock.steps)
                    configuration, measurement = measure(workload)
                    configuration = configuration.with_fields_of(strategy.configuration)
                    measured[strategy_index, workload_index].append((configuration, measurement))
                    if journal and strategy.spec:
                        journal.store(strategy.spec, workload, number, configuration, measurement)
                    clock.step()
    entries = [
        Entry(workload_rounds[0][0], [measurement for _, measurement in workload_rounds])
        for _, workload_rounds in sorted(measured.items())
    ]
    return entries, [
        f"{strategies[strategy_index].name}: {reason}" for strategy_index, reason in sorted(failed.items())
    ]


class _Clock:
    """Counts the steps done, and estimates the remaining time from the speed of this run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self._measured = 0
        self._start = time.monotonic()

    def step(self) -> None:
        self.done += 1
        self._measured += 1

    def skip(self, steps: int) -> None:
        self.done += steps

    def time_left(self) -> str:
        if not self._measured:
            return ""
        seconds = (time.monotonic() - self._start) / self._measured * (self.steps - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
