"""Estimates when requests have waited too long in TorchServe's queue, as TorchServe does not report their wait.

Everything that decides whether a queue is refused is here: `TRANSITIONS` has the states, and `Backlog` recognises the
events.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

IDLE_S = 0.05  # TorchServe hands over the next batch sooner than this if requests wait
LATE_DIVISOR = (
    2  # requests are late that have waited for the deadline divided by this, where others may wait behind them
)
PROBE_DEADLINES = 2  # after this many deadlines the queue is emptied although its requests are probably not late


class QueueState(Enum):
    """What the worker does with the requests of its queue."""

    COMPUTED = "its requests are computed"
    REFUSED = "its requests are refused, until it is empty"


class QueueEvent(Enum):
    """What a batch shows of the queue."""

    EMPTY = "the queue was empty"
    LATE = "its requests may be late"


TRANSITIONS: Mapping[tuple[QueueState, QueueEvent], QueueState] = {
    (QueueState.COMPUTED, QueueEvent.EMPTY): QueueState.COMPUTED,
    (QueueState.COMPUTED, QueueEvent.LATE): QueueState.REFUSED,
    (QueueState.REFUSED, QueueEvent.EMPTY): QueueState.COMPUTED,
    (QueueState.REFUSED, QueueEvent.LATE): QueueState.REFUSED,
}


class _HandedOver(NamedTuple):
    """A batch: when it was handed over, and its number of requests."""

    time: float
    requests: int


class Backlog:
    """Estimates the queue from a worker's batches: the queue is first in, first out, and has a known length.

    - A worker that has to wait for a batch knows that the queue was empty, so the requests in that batch are new.
    - TorchServe fills a batch for `batch_delay_ms`. On a busy machine that may be over before it has taken all
      waiting requests, so one batch that is not full says little. If the next batch is not full either, the first
      batch emptied the queue, and the requests in the second came after the first was handed over.
    - A request that came into a queue of n places has waited while at most n other requests were handed over.

    These are bounds: full batches say that requests wait, and not how many. So the worker empties the queue when its
    requests may be late. Of all requests since the queue was last empty, the part that it then refuses is the
    part that the worker cannot compute: the excess. As long as the excess does not change, the wait in the queue grows
    by this part of every second, from which follows when the queue has to be emptied next.

    Args:
        batch_size: requests in a full batch.
        queue_size: places in the queue for each worker of the model. With several workers the bound is an estimate,
            because a worker may take more of the queue than another.
        deadline_s: seconds that a request may take.
        clock: the time in seconds.

    Attributes:
        batch_size: the argument.
    """

    def __init__(
        self, batch_size: int, queue_size: int, deadline_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.batch_size = batch_size
        self._queue_size = queue_size
        self._deadline_s = deadline_s
        self._clock = clock
        self._batches: deque[_HandedOver] = deque()
        self._ended, self._emptied = -math.inf, clock()  # nothing waits yet
        self._state = QueueState.COMPUTED
        self._received = self._refused = 0  # requests since the queue was last empty
        self._excess = 1.0  # the part of the requests that came in excess; 1 if it is not known

    def begin(self, requests: int) -> bool:
        """A batch of so many requests is handed over; returns whether to refuse them, because they may be late."""
        now = self._clock()
        full = requests >= self.batch_size
        limit_s = self._deadline_s / LATE_DIVISOR
        if now - self._ended > IDLE_S:
            self._empty(now)
            self._batches.clear()
        elif not full and self._batches[-1].requests < self.batch_size:
            previous = self._batches[-1]
            self._empty(previous.time)
            self._batches = deque([previous])
            limit_s = self._deadline_s  # nothing waits behind this batch either
        elif self._refused >= self._queue_size:  # all requests that were in the queue have been refused
            self._empty(self._batches[0].time)
        if self._is_late(now, limit_s):
            self._state = TRANSITIONS[self._state, QueueEvent.LATE]
        refuse = self._state is QueueState.REFUSED
        self._received += requests
        self._refused += requests if refuse else 0
        self._batches.append(_HandedOver(now, requests))
        later_requests = sum(batch.requests for batch in self._batches) - self._batches[0].requests
        while later_requests >= self._queue_size:
            self._batches.popleft()
            later_requests -= self._batches[0].requests
        return refuse

    def end(self) -> None:
        """The batch has been answered."""
        self._ended = self._clock()

    def _is_late(self, now: float, limit_s: float) -> bool:
        """Whether requests handed over now are probably late, or may be late and the last probe is long ago."""
        max_wait = now - self._batches[0].time if self._batches else 0.0
        since_empty = now - self._emptied
        return max_wait > limit_s and (
            self._excess * since_empty > limit_s or since_empty > PROBE_DEADLINES * self._deadline_s
        )

    def _empty(self, now: float) -> None:
        """The queue was empty at this time."""
        self._state = TRANSITIONS[self._state, QueueEvent.EMPTY]
        is_measured = 0 < self._refused < self._queue_size  # TorchServe itself refuses requests to a full queue
        self._excess = self._refused / self._received if is_measured else 1.0
        self._received = self._refused = 0
        self._emptied = now
