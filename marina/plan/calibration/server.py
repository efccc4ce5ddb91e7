"""Measures a server under a few loads: latency, throughput, and the CPU time of the host and of the generator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import psutil

from marina.bench.load.arrivals import arrival_times
from marina.bench.load.histogram import decoded
from marina.bench.load.measurement import Measurement
from marina.bench.load.payload import LoadCase, Payload
from marina.bench.load.profile import OPEN_CONNECTIONS, Load
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.console import Progress
from marina.errors import MarinaError

BATCH_SIZE = 32  # of the server
WARM_UP_S, SECONDS, ROUNDS = 1.0, 3.0, 2
IDLE_RATE, IDLE_S = 15.0, 12.0
# connections of closed loops, and instances of a request: with one worker on all cores, and with one on each
ONE_WORKER = ((1, 1), (4, 1), (16, 1), (64, 1), (1, 16), (8, 4))
WORKER_A_CORE = ((4, 1), (32, 1), (8, 4))
INSTANCES = sorted({instances for _, instances in (*ONE_WORKER, *WORKER_A_CORE)})
BUSIEST = (64, 1)
# open loops: instances of a request, and the rate as a share of what the closed loop with the most connections reached
OPEN_LOOPS = ((1, 0.35), (1, 0.6), (1, 0.85), (4, 0.6))
OPEN_S, MAX_OPEN_S, OPEN_REQUESTS = 5.0, 20.0, 150  # seconds of an open loop, and the requests that it should have


class MeasuredLoad(NamedTuple):
    """A load and its measured figures.

    Attributes:
        cores: of each worker.
        connections: of a closed loop; 0 in an open loop.
        instances: of a request.
        sent: requests per second of an open loop, which come at random; 0 in a closed loop.
        rate: requests per second that were answered.
        p50, p99: latencies in milliseconds.
        batch: mean requests of a batch.
    """

    cores: int
    connections: int
    instances: int
    sent: float = 0.0
    rate: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    batch: float = 0.0


class MeasuredServer(NamedTuple):
    """Measurements of a server.

    Attributes:
        loads: closed and open loops, each as the mean of its rounds.
        open_rounds: the rounds of the open loops.
        front, client: milliseconds of CPU time for a request, in the host's process and in the generator.
    """

    loads: list[MeasuredLoad]
    open_rounds: list[MeasuredLoad]
    front: float
    client: float

    def beside(self, other: MeasuredServer) -> MeasuredServer:
        """The loads of both servers, and the CPU times of this one."""
        return self._replace(loads=self.loads + other.loads, open_rounds=self.open_rounds + other.open_rounds)


def open_load(rate: float) -> Load:
    """An open loop of so many requests per second, which lasts longer if they are few."""
    seconds = min(MAX_OPEN_S, max(OPEN_S, OPEN_REQUESTS / rate))
    return Load(OPEN_CONNECTIONS, rate=rate, warm_up_s=WARM_UP_S, window_s=seconds, seconds=seconds)


def send_times_ms(load: Load) -> list[float]:
    """When the generator sends the requests of an open loop, in milliseconds."""
    times = arrival_times(load.arrivals, load.rate or 0.0, 0, load.processes)
    return [time * 1000 for time in itertools.takewhile(lambda time: time < load.warm_up_s + load.window_s, times)]


def measure_loads(
    server: BenchmarkServer,
    endpoint: Endpoint,
    payloads: dict[int, Payload],
    cores: int,
    loops: Sequence[tuple[int, int]],
    progress: Progress,
) -> MeasuredServer:
    """Measure closed and open loops, in rounds.

    Args:
        server: the server of the model.
        endpoint: of the model.
        payloads: requests by their number of instances.
        cores: of each worker.
        loops: connections of closed loops, and instances of a request.
        progress: called before each load.
    """
    host = psutil.Process(psutil.Process(server.worker_pids()[0]).ppid())
    rounds_of: dict[MeasuredLoad, list[Measurement]] = {MeasuredLoad(cores, *loop): [] for loop in loops}
    front, client = [], []
    for number, loop in enumerate(list(rounds_of) * ROUNDS):
        progress(f"the server with {loop.connections} connections", number, len(loops) * ROUNDS)
        before = sum(host.cpu_times()[:2])
        load = Load(loop.connections, warm_up_s=WARM_UP_S, window_s=SECONDS, seconds=SECONDS)
        measured = _measure(endpoint, LoadCase(load, payloads[loop.instances]))
        rounds_of[loop].append(measured)
        if (loop.connections, loop.instances) == BUSIEST and measured.generator:
            # the warm-up is in the host's time, and not among the requests
            sent_requests = measured.requests * (1 + WARM_UP_S / SECONDS)
            front.append((sum(host.cpu_times()[:2]) - before) * 1000 / sent_requests)
            client.append(measured.generator.cpu * measured.seconds * 1000 / measured.requests)
    closed = [_mean(load, rounds) for load, rounds in rounds_of.items()]
    capacity = {load.instances: load.rate for load in sorted(closed, key=lambda load: load.connections)}
    open_loops = [
        MeasuredLoad(cores, 0, instances, round(share * capacity[instances], 2)) for instances, share in OPEN_LOOPS
    ]
    rounds_of = {loop: [] for loop in open_loops}
    for number, loop in enumerate(open_loops * ROUNDS):
        progress(f"the server with {loop.sent:.0f} requests a second", number, len(open_loops) * ROUNDS)
        rounds_of[loop].append(_measure(endpoint, LoadCase(open_load(loop.sent), payloads[loop.instances])))
    loads = closed + [_mean(load, rounds) for load, rounds in rounds_of.items()]
    open_rounds = [_mean(load, [measured]) for load, rounds in rounds_of.items() for measured in rounds]
    return MeasuredServer(loads, open_rounds, fmean(front or [0.0]), fmean(client or [0.0]))


def _measure(endpoint: Endpoint, case: LoadCase) -> Measurement:
    """Measure a load; MarinaError if no request was answered in its window (some may be answered after it)."""
    measured = measure_endpoint(endpoint, case)
    if not measured.requests:
        raise MarinaError(
            f"the server answered no request of a load within {case.load.window_s:g} s",
            "the model is too slow here to calibrate it",
        )
    return measured


def _mean(load: MeasuredLoad, rounds: Sequence[Measurement]) -> MeasuredLoad:
    p50, p99 = (fmean(measurement.latency_ms[name] for measurement in rounds) for name in ("p50", "p99"))
    return load._replace(
        rate=fmean(measurement.requests / measurement.seconds for measurement in rounds),
        p50=p50,
        p99=p99,
        batch=fmean(measurement.server.batch if measurement.server else 1.0 for measurement in rounds),
    )


def measure_pauses(endpoint: Endpoint, payload: Payload) -> list[float]:
    """Latencies of requests that come one by one with pauses, in milliseconds."""
    load = Load(16, rate=IDLE_RATE, arrivals="constant", warm_up_s=WARM_UP_S, window_s=IDLE_S, seconds=IDLE_S)
    histogram = decoded(measure_endpoint(endpoint, LoadCase(load, payload)).histogram)
    return [
        item.value_iterated_to / 1000
        for item in histogram.get_recorded_iterator()
        for _ in range(item.count_added_in_this_iter_step)
    ]
