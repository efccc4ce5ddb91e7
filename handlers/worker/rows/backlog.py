"""Bounds how long requests may have waited in TorchServe's queue, which TorchServe does not tell."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

IDLE_S = 0.02  # TorchServe hands over the next batch sooner than this if requests wait


class Backlog:
    """The batches of a worker, and what they say about the queue: it is first in, first out, and has a known length.

    - A worker that has to wait for a batch found the queue empty, so the requests in that batch are new.
    - A batch that is not full has emptied the queue, so the requests in the next one came after it was handed over.
    - A request that came into a queue of n places has waited while at most n others were handed over.

    Args:
        batch_size: requests in a full batch.
        queue_size: places in the queue for each worker of the model. With several workers the bound is an estimate,
            because one may take more of the queue than another.
        clock: the time in seconds.

    Attributes:
        batch_size: the same.
    """

    def __init__(self, batch_size: int, queue_size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.batch_size = batch_size
        self._queue_size = queue_size
        self._clock = clock
        self._batches: deque[tuple[float, int]] = deque()  # when each was handed over, and its requests
        self._ended = clock()

    def begin(self, requests: int) -> float:
        """A batch of so many requests is handed over; returns the seconds that any of them may have waited at most."""
        now = self._clock()
        if now - self._ended > IDLE_S:
            self._batches.clear()
        waited = now - self._batches[0][0] if self._batches else 0.0
        if requests < self.batch_size:
            self._batches.clear()
        self._batches.append((now, requests))
        later = sum(count for _, count in self._batches) - self._batches[0][1]
        while later >= self._queue_size:
            self._batches.popleft()
            later -= self._batches[0][1]
        return waited

    def end(self) -> None:
        """The batch has been answered."""
        self._ended = self._clock()
