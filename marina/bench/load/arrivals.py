"""When requests of an open loop are meant to be sent: a schedule that no answer can delay."""

from __future__ import annotations

import random
from collections.abc import Iterator

from marina.bench.load.profile import Arrivals


def arrival_times(arrivals: Arrivals, rate: float, process: int, processes: int) -> Iterator[float]:
    """Seconds from the start at which one process of the generator sends, without end.

    The schedules of all processes together are one of `rate` a second: Poisson processes add up to
    one, and constant ones are shifted against each other.

    Args:
        arrivals: "poisson" (independent gaps, exponentially distributed) or "constant".
        rate: requests a second of all processes together.
        process: number of this one, from 0.
        processes: how many there are.
    """
    gap = processes / rate
    if arrivals == "constant":
        number = 0
        while True:
            yield (number + process / processes) * gap
            number += 1
    source = random.Random(process)
    at = 0.0
    while True:
        at += source.expovariate(1 / gap)
        yield at
