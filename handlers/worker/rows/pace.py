"""How long calls take now, beside the times that were measured at the worker's start.

Workers often start side by side, so each measures its graphs on cores that others use. Later they share the cores in
other ways.
"""

from __future__ import annotations

import time
from collections.abc import Callable

KEPT = 0.9  # of what is known, at every batch
STALE_S = 60.0  # an observation says nothing after this
QUICKEST = 1 / 3  # calls may be this much quicker than what is known, if that is stale
MOST = 10  # times the expected, of a batch that took longer: a machine that stood still says nothing about the next one
PRIOR_MS = 100.0  # so much work was observed at the times of the start, so that a first slow call is not taken for all


class Pace:
    """The pace of a worker's calls.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected = self._took = PRIOR_MS
        self._observed: float | None = None

    def observe(self, expected_ms: float, took_ms: float) -> None:
        """The calls of a batch, which need `expected_ms` at the times of the start, took `took_ms`."""
        self._expected = KEPT * self._expected + expected_ms
        self._took = KEPT * self._took + min(took_ms, MOST * expected_ms)
        self._observed = self._clock()

    @property
    def value(self) -> float:
        """What calls take, as a multiple of the times of the start."""
        return self._took / self._expected

    @property
    def least(self) -> float:
        """The same for a time without other work, and smaller if nothing was computed lately."""
        stale = self._observed is None or self._clock() - self._observed > STALE_S
        return min(self.value, 1.0) * (QUICKEST if stale else 1.0)
