"""Intended send times of requests in an open loop: a schedule that answers cannot delay."""

from __future__ import annotations

import random
from collections.abc import Iterator

from marina.bench.load.profile import Arrivals


def arrival_times(arrivals: Arrivals, rate: float, process: int, processes: int) -> Iterator[float]:
    """Send times of one generator process in seconds from the start, as an endless iterator.

    The schedules of all processes together have `rate` requests per second: Poisson processes add up
    to a Poisson process, and constant schedules are shifted against each other.

    Args:
        arrivals: "poisson" (independent gaps, exponentially distributed) or "constant".
        rate: requests per second of all processes together.
        process: number of this process, from 0.
        processes: number of processes.
    """
    mean_gap = processes / rate
    if arrivals == "constant":
        number = 0
        while True:
            yield (number + process / processes) * mean_gap
            number += 1
    rng = random.Random(process)
    send_time = 0.0
    while True:
        send_time += rng.expovariate(1 / mean_gap)
        yield send_time
