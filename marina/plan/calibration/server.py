"""Measures a server under a few loads: latency, throughput, and the CPU time of TorchServe and of the generator."""

from __future__ import annotations

from typing import NamedTuple

import psutil

from marina.bench.load.histogram import decoded
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import Payload, Workload
from marina.bench.load.profile import Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.console import Progress

WARM_UP_S, SECONDS = 1.5, 5.0
IDLE_RATE, IDLE_S = 15.0, 12.0
# connections of closed loops, and instances of a request
CLOSED = ((1, 1), (4, 1), (16, 1), (64, 1), (4, 16))


class ClosedLoop(NamedTuple):
    """A closed loop: requests per second, median latency in milliseconds, and mean requests of a batch."""

    connections: int
    instances: int
    rate: float
    p50: float
    batch: float


class Served(NamedTuple):
    """What a server did.

    Attributes:
        loops: the closed loops of `CLOSED`.
        idle: latencies of requests that come one by one with pauses, in milliseconds.
        front, client: milliseconds of CPU time for a request, in TorchServe's Java process and in the generator.
    """

    loops: list[ClosedLoop]
    idle: list[float]
    front: float
    client: float


def measure_server(
    server: BenchmarkServer, endpoint: Endpoint, payloads: dict[int, Payload], progress: Progress
) -> Served:
    """Measure a model that is served.

    Args:
        server: that serves it.
        endpoint: of the model.
        payloads: requests by their number of instances.
        progress: called before each load.
    """
    java = psutil.Process(psutil.Process(server.worker_pids()[0]).ppid())
    steps = len(CLOSED) + 1
    loops, front, client = [], 0.0, 0.0
    for number, (connections, instances) in enumerate(CLOSED):
        progress(f"the server with {connections} connections", number, steps)
        before = sum(java.cpu_times()[:2])
        load = Load(connections, warm_up_s=WARM_UP_S, window_s=SECONDS, seconds=SECONDS)
        found = measure_endpoint(endpoint, Workload(load, payloads[instances]))
        spent = sum(java.cpu_times()[:2]) - before
        batch = found.server.batch if found.server else 1.0
        loops.append(ClosedLoop(connections, instances, found.requests / found.seconds, found.latency_ms["p50"], batch))
        if (connections, instances) == (64, 1) and found.generator:
            # the warm-up is in Java's time, and not among the requests
            front = spent * 1000 / (found.requests * (1 + WARM_UP_S / SECONDS))
            client = found.generator.cpu * found.seconds * 1000 / found.requests
    progress("the server with pauses between requests", steps - 1, steps)
    load = Load(16, rate=IDLE_RATE, arrivals="constant", warm_up_s=WARM_UP_S, window_s=IDLE_S, seconds=IDLE_S)
    return Served(loops, _latencies(measure_endpoint(endpoint, Workload(load, payloads[1]))), front, client)


def _latencies(measured: Measurement) -> list[float]:
    """Every latency of a measurement, in milliseconds."""
    return [
        item.value_iterated_to / 1000
        for item in decoded(measured.histogram).get_recorded_iterator()
        for _ in range(item.count_added_in_this_iter_step)
    ]
