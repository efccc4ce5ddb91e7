"""How long calls take at present, compared with the times that were measured at the worker's start.

Workers often start side by side, so each measures its graphs on cores that other workers use. Later they share the
cores in other ways.
"""

from __future__ import annotations

import time
from collections.abc import Callable

DECAY = 0.9  # weight of all earlier batches, at every batch
STALE_S = 60.0  # age after which an observation says nothing
STALE_FACTOR = 1 / 3  # calls may be this much quicker than observed, if the observation is stale
# of a batch's actual to its expected time: after a machine stood still, one batch says nothing about the next one
MAX_RATIO = 10
PRIOR_MS = 100.0  # work that counts as observed at the times of the start, so that one slow first call does not decide


class Pace:
    """The pace of a worker's calls.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected = self._actual = PRIOR_MS
        self._observed_at: float | None = None

    def observe(self, expected_ms: float, actual_ms: float) -> None:
        """Count the calls of a batch, which need `expected_ms` at the times of the start, and took `actual_ms`."""
        self._expected = DECAY * self._expected + expected_ms
        self._actual = DECAY * self._actual + min(actual_ms, MAX_RATIO * expected_ms)
        self._observed_at = self._clock()

    @property
    def value(self) -> float:
        """The time of calls at present, as a multiple of the times of the start."""
        return self._actual / self._expected

    @property
    def best(self) -> float:
        """The value without other work on the cores, and smaller still if nothing was computed lately."""
        stale = self._observed_at is None or self._clock() - self._observed_at > STALE_S
        return min(self.value, 1.0) * (STALE_FACTOR if stale else 1.0)
