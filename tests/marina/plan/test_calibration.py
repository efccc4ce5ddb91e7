"""Fitting, and the file of a calibration."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marina.bench.load.arrivals import arrival_times
from marina.bench.load.payload import Payload
from marina.errors import MarinaError
from marina.plan.calibration import server
from marina.plan.calibration.calibrate import group_sizes
from marina.plan.calibration.fit import fit_server, idle_times
from marina.plan.calibration.loads import LoadSimulator
from marina.plan.calibration.record import (
    Calibration,
    ServerCosts,
    WorkerCosts,
    calibration_file,
    read_calibration,
    write_calibration,
)
from marina.plan.calibration.server import (
    INSTANCES,
    MAX_OPEN_S,
    ONE_WORKER,
    OPEN_S,
    WARM_UP_S,
    WORKER_A_CORE,
    MeasuredLoad,
    MeasuredServer,
    measure_loads,
    open_load,
    send_times_ms,
)
from marina.plan.calibration.worker import RequestSample, spread_of
from marina.plan.simulator.batches import NO_DELAY
from marina.plan.simulator.uncertainty import Slowdowns, Uncertainty
from tests.conftest import no_progress
from tests.marina.bench.results import measured as measured_load

SPREAD = (0.95, 1.0, 1.1)
TIMES = {1: {"1x16": 2.0, "1x64": 5.0, "8x64": 30.0}, 2: {"1x16": 1.5, "1x64": 3.0, "8x64": 17.0}}
WORKERS = [WorkerCosts(cores, own, own, SPREAD, 0.5, 0.05, 0.02, 0.002) for cores, own in TIMES.items()]
REAL = ServerCosts(
    gap=1.2,
    request=0.02,
    outside=0.4,
    entering=0.06,
    replying=0.03,
    front=0.3,
    client=0.05,
    stolen=0.6,
    slower=1.1,
    slower_alone=0.95,
    tail=2.0,
    timer=0.06,
    idle=(0.0,),
)


def calibration() -> Calibration:
    machine = {"processor": "any", "memory_gib": 8.0}
    made, uncertainty = "2026-11-23T00:00:00+00:00", Uncertainty(Slowdowns(0.01, 0.1, 8), Slowdowns(0.02, 0.2, 8))
    measured = (machine, 2, 0.1, tuple(WORKERS), REAL, 400.0, 0.03, 2.5, 0.04, uncertainty)
    return Calibration("m", "openvino", "int8", "direct", *measured, made)


@pytest.mark.parametrize(
    ("cores", "sizes"),
    [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (9, [1, 4, 8, 9]), (64, [1, 16, 32, 64])],
)
def test_one_core_and_the_largest_groups_are_measured(cores: int, sizes: list[int]) -> None:
    assert group_sizes(cores) == sizes


@pytest.mark.long
@pytest.mark.parametrize("delay_ms", [1, NO_DELAY])
def test_a_fit_explains_the_loads_of_a_known_server(delay_ms: int) -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(2.8, 0.7, 400), 3, 64).astype(int)
    model = LoadSimulator(WORKERS, RequestSample([""] * len(lengths), lengths.tolist()), 2, 0.05, delay_ms)
    loads = [(2, *loop) for loop in ONE_WORKER] + [(1, *loop) for loop in WORKER_A_CORE]
    measured = [MeasuredLoad(*load, 0.0, *model.figures(REAL, MeasuredLoad(*load))) for load in loads]
    for cores, capacity in ((2, measured[3].rate), (1, measured[7].rate)):
        for load in [MeasuredLoad(cores, 0, 1, round(share * capacity, 2)) for share in (0.35, 0.6, 0.85)]:
            measured.append(MeasuredLoad(*load[:4], *model.figures(REAL, load)))
    fit = fit_server(MeasuredServer(measured, [], REAL.front, REAL.client), model.figures)
    assert fit.error < 0.02
    # a server that is 1.2 times as slow, and no other, explains its latencies
    slow = [load._replace(p50=figures[1], p99=figures[2]) for load in (measured[-5], measured[-2])
            for figures in [model.figures(fit.server, load, 1.2)] for _ in range(2)]  # fmt: skip
    explained = model.uncertainty(fit.server, slow)
    assert explained.p50.at(0.5) == pytest.approx(1.2, rel=0.03)
    assert explained.p99.at(0.5) == pytest.approx(1.2, rel=0.06)
    assert explained.p50.loads == 2
    assert explained.p50.deviation < 0.05
    # another load, which it has not seen
    other = MeasuredLoad(2, 24, 2)
    simulated, real = model.figures(fit.server, other), model.figures(REAL, other)
    assert simulated[:2] == pytest.approx(real[:2], rel=0.06)
    assert simulated[2] == pytest.approx(real[2], rel=0.1)  # p99, which varies more
    if delay_ms != NO_DELAY:  # without a delay, other costs make up for it
        assert fit.server.tail == pytest.approx(REAL.tail, rel=0.3)


def test_a_fit_goes_on_where_simulations_answer_nothing() -> None:
    def simulate(server: ServerCosts, load: MeasuredLoad) -> tuple[float, float, float, float]:
        rate = 10 / server.slower if server.slower < 1.05 else 0.0
        return rate, 100 * server.slower, 200 * server.slower, load.batch

    loads = [MeasuredLoad(2, 1, 1, 0.0, 20.0, 50.0, 100.0, 1.0)]
    fit = fit_server(MeasuredServer(loads, [], REAL.front, REAL.client), simulate)
    assert fit.server.slower == pytest.approx(0.5, rel=0.05)
    assert fit.error < 0.05


def test_a_model_that_is_too_slow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is answered in the window, though the histogram has those that are answered after it."""
    monkeypatch.setattr(server, "measure_endpoint", lambda *_: measured_load(0.0))
    one_worker: Any = SimpleNamespace(worker_pids=lambda: [os.getpid()])
    endpoint: Any = None
    payloads = {instances: Payload([b"{}"], instances, "mix") for instances in INSTANCES}
    with pytest.raises(MarinaError, match="answered no request of a load within 3 s") as refused:
        measure_loads(one_worker, endpoint, payloads, 2, ONE_WORKER, no_progress)
    assert refused.value.fix == "the model is too slow here to calibrate it"


def test_open_loops_are_simulated_with_the_times_of_the_generator() -> None:
    busy, slow = open_load(50.0), open_load(2.0)
    assert (busy.seconds, slow.seconds) == (OPEN_S, MAX_OPEN_S)
    times = send_times_ms(busy)
    assert busy.processes == 1  # each process has a schedule of its own
    generator = arrival_times(busy.arrivals, 50.0, 0, 1)
    assert times == [1000 * next(generator) for _ in times]
    assert times[-1] < 1000 * (WARM_UP_S + OPEN_S) <= 1000 * next(generator)


def test_what_pauses_add_is_no_slowdown() -> None:
    lengths = np.full(50, 12)
    model = LoadSimulator(WORKERS, RequestSample([""] * len(lengths), lengths.tolist()), 2, 0.05, 1)
    sleepy = replace(REAL, idle=(2.0, 3.0, 4.0))
    measured = []
    for light in (MeasuredLoad(2, 0, 1, 20.0), MeasuredLoad(1, 0, 1, 30.0)):
        _, p50, p99, _ = model.figures(sleepy, light)
        assert p50 > model.figures(REAL, light)[1] + 1
        measured += [light._replace(p50=p50, p99=p99)] * 2
    assert model.uncertainty(sleepy, measured).p50.at(0.5) == pytest.approx(1.0, abs=0.01)
    assert model.paced(sleepy) == model.paced(REAL)


def test_pauses_are_what_simulations_lack() -> None:
    usual = [1.0, 2.0, 3.0] * 100
    assert idle_times([one + 0.5 for one in usual], usual) == pytest.approx([0.5] * 41)
    assert len(spread_of(usual)) == 41


def test_a_calibration_is_kept_beside_the_artifact(tmp_path: Path) -> None:
    artifact = tmp_path / "abc"
    assert read_calibration(artifact, "direct") is None
    path = write_calibration(artifact, calibration())
    assert path == calibration_file(artifact, "direct")
    assert read_calibration(artifact, "direct") == calibration()
    assert read_calibration(artifact, "torchserve") is None
    path.write_text(json.dumps({"format": 0, **asdict(replace(calibration(), cores=4))}))
    assert read_calibration(artifact, "direct") is None
    path.write_text("{")
    assert read_calibration(artifact, "direct") is None
