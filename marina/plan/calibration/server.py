"""Measures a server under a few loads: latency, throughput, and the CPU time of the host and of the generator."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import psutil

from marina.bench.load.histogram import decoded
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.console import Progress

WARM_UP_S, SECONDS, ROUNDS = 1.0, 3.0, 2
IDLE_RATE, IDLE_S = 15.0, 12.0
# connections of closed loops, and instances of a request: with one worker on all cores, and with one on each
ONE_WORKER = ((1, 1), (4, 1), (16, 1), (64, 1), (1, 16), (8, 4))
WORKER_A_CORE = ((4, 1), (32, 1), (8, 4))
INSTANCES = sorted({instances for _, instances in (*ONE_WORKER, *WORKER_A_CORE)})
BUSIEST = (64, 1)


class ClosedLoop(NamedTuple):
    """A closed loop: the cores of each worker, requests per second, latencies in ms, requests of a batch."""

    cores: int
    connections: int
    instances: int
    rate: float
    p50: float
    p99: float
    batch: float


class MeasuredServer(NamedTuple):
    """Measurements of a server with one worker, and of a server with a worker on each core.

    Attributes:
        loops: closed loops.
        idle: latencies of requests that come one by one with pauses, in milliseconds.
        front, client: milliseconds of CPU time for a request, in the host's process and in the generator.
    """

    loops: list[ClosedLoop]
    idle: list[float]
    front: float
    client: float


def measure_loops(
    server: BenchmarkServer,
    endpoint: Endpoint,
    payloads: dict[int, Payload],
    cores: int,
    loops: Sequence[tuple[int, int]],
    progress: Progress,
) -> tuple[list[ClosedLoop], float, float]:
    """Measure closed loops, in rounds; returns the loops, and `MeasuredServer.front` and `MeasuredServer.client`.

    Args:
        server: the server of the model.
        endpoint: of the model.
        payloads: requests by their number of instances.
        cores: of each worker.
        loops: connections, and instances of a request.
        progress: called before each load.
    """
    host = psutil.Process(psutil.Process(server.worker_pids()[0]).ppid())
    rounds_by_loop: dict[tuple[int, int], list[Measurement]] = {loop: [] for loop in loops}
    front, client = [], []
    for number, loop in enumerate(list(loops) * ROUNDS):
        connections, instances = loop
        progress(f"the server with {connections} connections", number, len(loops) * ROUNDS)
        before = sum(host.cpu_times()[:2])
        load = Load(connections, warm_up_s=WARM_UP_S, window_s=SECONDS, seconds=SECONDS)
        measured = measure_endpoint(endpoint, LoadCase(load, payloads[instances]))
        rounds_by_loop[loop].append(measured)
        if loop == BUSIEST and measured.generator:
            # the warm-up is in the host's time, and not among the requests
            sent_requests = measured.requests * (1 + WARM_UP_S / SECONDS)
            front.append((sum(host.cpu_times()[:2]) - before) * 1000 / sent_requests)
            client.append(measured.generator.cpu * measured.seconds * 1000 / measured.requests)
    closed = []
    for (connections, instances), rounds in rounds_by_loop.items():
        rate = fmean(measurement.requests / measurement.seconds for measurement in rounds)
        p50, p99 = (fmean(measurement.latency_ms[name] for measurement in rounds) for name in ("p50", "p99"))
        batch = fmean(measurement.server.batch if measurement.server else 1.0 for measurement in rounds)
        closed.append(ClosedLoop(cores, connections, instances, rate, p50, p99, batch))
    return closed, fmean(front or [0.0]), fmean(client or [0.0])


def measure_pauses(endpoint: Endpoint, payload: Payload) -> list[float]:
    """Latencies of requests that come one by one with pauses, in milliseconds."""
    load = Load(16, rate=IDLE_RATE, arrivals="constant", warm_up_s=WARM_UP_S, window_s=IDLE_S, seconds=IDLE_S)
    return _latencies(measure_endpoint(endpoint, LoadCase(load, payload)))


def _latencies(measured: Measurement) -> list[float]:
    """Every latency of a measurement, in milliseconds."""
    return [
        item.value_iterated_to / 1000
        for item in decoded(measured.histogram).get_recorded_iterator()
        for _ in range(item.count_added_in_this_iter_step)
    ]
