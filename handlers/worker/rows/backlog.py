"""Knows when requests may have waited too long in TorchServe's queue, which TorchServe does not tell."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

IDLE_S = 0.05  # TorchServe hands over the next batch sooner than this if requests wait
LATE = 2  # requests that have waited for this part of the deadline are late
PROBE = 2  # after this many deadlines the queue is emptied although its requests are probably not late


class Backlog:
    """The batches of a worker, and what they say about the queue: it is first in, first out, and has a known length.

    - A worker that has to wait for a batch knows that the queue was empty, so the requests in that batch are new.
    - TorchServe fills a batch for `batch_delay_ms`. On a busy machine that may be over before it has taken all that
      waits, so one batch that is not full says little. If the next is not full either, the first one emptied the queue,
      and the requests in the second came after it was handed over.
    - A request that came into a queue of n places has waited while at most n others were handed over.

    These are bounds: full batches say that requests wait, and not how many. So the worker empties the queue when its
    requests may be late. The part of all requests since the queue was last empty that it then refuses is the part that
    came in excess of what the worker computes. As long as that does not change, the wait in the queue grows by this
    part of every second, which tells when the queue has to be emptied next.

    Args:
        batch_size: requests in a full batch.
        queue_size: places in the queue for each worker of the model. With several workers the bound is an estimate,
            because one may take more of the queue than another.
        deadline_s: seconds that a request may take.
        clock: the time in seconds.

    Attributes:
        batch_size: the same.
    """

    def __init__(
        self, batch_size: int, queue_size: int, deadline_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.batch_size = batch_size
        self._queue_size = queue_size
        self._deadline_s = deadline_s
        self._clock = clock
        self._batches: deque[tuple[float, int]] = deque()  # when each was handed over, and its requests
        self._ended, self._emptied = -math.inf, clock()  # nothing waits yet
        self._handed = self._refused = 0  # requests since the queue was empty
        self._excess = 1.0  # the part of the requests that came in excess; 1 if it is not known

    def begin(self, requests: int) -> bool:
        """A batch of so many requests is handed over; returns whether to refuse them, since they may be late."""
        now = self._clock()
        full = requests >= self.batch_size
        if now - self._ended > IDLE_S:
            self._empty(now)
            self._batches.clear()
        elif not full and self._batches[-1][1] < self.batch_size:
            before = self._batches[-1]
            self._empty(before[0])
            self._batches = deque([before])
        elif self._refused >= self._queue_size:  # whatever was in the queue has been refused
            self._empty(self._batches[0][0])
        refuse = self._refused > 0 or self._late(now)
        self._handed += requests
        self._refused += requests if refuse else 0
        self._batches.append((now, requests))
        later = sum(count for _, count in self._batches) - self._batches[0][1]
        while later >= self._queue_size:
            self._batches.popleft()
            later -= self._batches[0][1]
        return refuse

    def end(self) -> None:
        """The batch has been answered."""
        self._ended = self._clock()

    def _late(self, now: float) -> bool:
        """Whether requests that are handed over now have probably waited too long, or may have and were not probed."""
        most = now - self._batches[0][0] if self._batches else 0.0
        since = now - self._emptied
        limit = self._deadline_s / LATE
        return most > limit and (self._excess * since > limit or since > PROBE * self._deadline_s)

    def _empty(self, now: float) -> None:
        """The queue is empty."""
        known = 0 < self._refused < self._queue_size  # TorchServe itself refuses what finds the queue full
        self._excess = self._refused / self._handed if known else 1.0
        self._handed = self._refused = 0
        self._emptied = now
