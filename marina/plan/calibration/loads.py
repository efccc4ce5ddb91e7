"""Simulates the loads of a calibration, and says what would explain the measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marina.plan.calibration.costs import costs_of
from marina.plan.calibration.record import ServerCosts, WorkerCosts
from marina.plan.calibration.server import BATCH_SIZE, IDLE_RATE, MeasuredLoad, open_load, send_times_ms
from marina.plan.calibration.worker import RequestSample
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, machines_of, models_of
from marina.plan.simulator.uncertainty import Uncertainty, slowdown_that_explains, slowdowns_of
from marina.plan.simulator.values import Floats, Requests, SimulationResult

SIMULATED_REQUESTS = 4000  # requests of a closed loop
SLOWDOWNS = tuple(np.geomspace(0.25, 8.0, 21).tolist())  # with which measurements are explained


class LoadSimulator:
    """Simulates the loads of a calibration.

    Args:
        workers: the costs of a worker for each number of cores.
        sample: the contents of requests.
        cores: of the machine.
        contention: see `Calibration`.
        delay_ms: see `Service`.
    """

    def __init__(
        self, workers: Sequence[WorkerCosts], sample: RequestSample, cores: int, contention: float, delay_ms: int
    ) -> None:
        self._workers = {worker.cores: worker for worker in workers}
        self._cores, self._contention, self._delay_ms = cores, contention, delay_ms
        self._tokens, self._rows = np.array(sample.tokens, np.int64), sample.rows

    def figures(
        self, server: ServerCosts, load: MeasuredLoad, slowdown: float = 1.0
    ) -> tuple[float, float, float, float]:
        """Requests per second, p50 and p99 of the latency in milliseconds, and mean requests of a batch."""
        open_loop = open_load(load.sent) if load.sent else None
        at = np.array(send_times_ms(open_loop)) if open_loop else np.zeros(SIMULATED_REQUESTS)
        result = self._run(server, self._requests(at, load.instances, load.connections), load.cores, slowdown)
        answered, start, seconds = result.sent + result.latency, 0.0, result.end / 1000
        if open_loop:
            start, seconds = open_loop.warm_up_s * 1000, open_loop.window_s
        rate = ((answered >= start) & (answered <= start + seconds * 1000)).sum() / seconds
        p50, p99 = np.nanpercentile(result.latency[result.sent >= start], (50, 99))
        return float(rate), float(p50), float(p99), float(result.batched.sum() / result.batches.sum())

    def uncertainty(self, server: ServerCosts, rounds: Sequence[MeasuredLoad]) -> Uncertainty:
        """What explains the measured rounds of open loops."""
        simulated = {
            load[:4]: np.array([self.figures(server, load, slowdown)[1:3] for slowdown in SLOWDOWNS]) for load in rounds
        }
        p50s, p99s = (
            [slowdown_that_explains(getattr(load, name), SLOWDOWNS, simulated[load[:4]][:, column]) for load in rounds]
            for column, name in enumerate(("p50", "p99"))
        )
        return Uncertainty(slowdowns_of(p50s, len(simulated)), slowdowns_of(p99s, len(simulated)))

    def paced(self, server: ServerCosts) -> list[float]:
        """Latencies of single requests with pauses, without what the pauses add."""
        at = np.arange(SIMULATED_REQUESTS) * 1000 / IDLE_RATE
        awake = replace(server, idle=(0.0,))
        return [float(latency) for latency in self._run(awake, self._requests(at, 1, 0), self._cores).latency]

    def _requests(self, at: Floats, instances: int, connections: int) -> Requests:
        rows = instances * self._rows
        tokens = np.resize(self._tokens, len(at) * rows)
        return Requests(at, np.zeros(len(at), np.int64), np.arange(len(at) + 1) * rows, tokens, connections)

    def _run(self, server: ServerCosts, requests: Requests, cores: int, slowdown: float = 1.0) -> SimulationResult:
        service = Service((cores,) * (self._cores // cores), BATCH_SIZE, self._delay_ms)
        costs = costs_of(self._workers[cores], server, cores == self._cores, client_here=True)
        models = models_of([costs.slower(slowdown)], [service])
        machines = machines_of([service], self._cores, self._contention, server.stolen, server.entering, server.timer)
        return simulate(requests, models, machines, 0)
