from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.report.results import Configuration
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.errors import CompileError
from tests.marina.bench.results import measured

WORKLOADS = [LoadCase(Load(connections), Payload([b"{}"], 1, "mix")) for connections in (1, 16)]


def strategy(name: str, log: list[str], error: str = "") -> Strategy:
    """A strategy that writes down what is done with it."""

    def measure(workload: LoadCase) -> tuple[Configuration, Measurement]:
        log.append(f"{name} {workload.load.connections}")
        return Configuration(model="its own", engine="e").with_load_of(workload), measured(len(log))

    @contextmanager
    def start() -> Iterator[Measure]:
        if error:
            raise CompileError(error)
        log.append(f"{name} starts")
        yield measure
        log.append(f"{name} ends")

    return Strategy(name, Configuration(model="m", strategy=name), WORKLOADS, start)


def test_every_workload_of_every_strategy_is_measured_in_every_round() -> None:
    log: list[str] = []
    steps: list[tuple[int, int]] = []
    names = ["a", "b", "c", "d"]
    entries, failures = measure_rounds(
        [strategy(name, log) for name in names], 6, lambda _, done, of: steps.append((done, of))
    )
    assert failures == []
    assert [(one.configuration.strategy, one.configuration.connections) for one in entries] == [
        (name, connections) for name in names for connections in (1, 16)
    ]
    assert {len(one.rounds) for one in entries} == {6}
    # what tells a strategy apart goes before what was found out of it
    assert {(one.configuration.model, one.configuration.engine) for one in entries} == {("m", "e")}
    rounds = [log[start : start + 16] for start in range(0, len(log), 16)]
    for one in rounds:
        assert {line.split()[0] for line in one} == set(names)
        for at in range(0, 16, 4):
            name = one[at].split()[0]
            assert (one[at], one[at + 3]) == (f"{name} starts", f"{name} ends")
            assert set(one[at + 1 : at + 3]) == {f"{name} 1", f"{name} 16"}
    assert len({tuple(one) for one in rounds}) > 1, "rounds have orders of their own"
    assert steps == sorted(steps)
    assert {of for _, of in steps} == {4 * 2 * 6}


def test_a_strategy_that_does_not_start_ends_all_or_is_left_out() -> None:
    log: list[str] = []
    both = [strategy("broken", log, "it does not compile"), strategy("sound", log)]
    with pytest.raises(CompileError, match="it does not compile"):
        measure_rounds(both, 2, lambda *_: None)
    entries, failures = measure_rounds(both, 2, lambda *_: None, leave_out_failures=True)
    assert [one.configuration.strategy for one in entries] == ["sound", "sound"]
    assert {len(one.rounds) for one in entries} == {2}
    assert failures == ["broken: it does not compile"]
