"""Chooses which requests of a batch are computed now, so that costly requests do not make others wait for long.

TorchServe hands a worker up to batch_size requests at once, whatever they cost, and waits for all answers together.
A request that is not computed is refused with 503 at once; its client may send it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from handlers.worker.errors import RequestError
from handlers.worker.rows.backlog import Backlog
from handlers.worker.rows.costs import Costs
from handlers.worker.rows.pace import Pace

COSTLY = 4  # a request is costly if it needs more than this part of `max_batch_ms`
ROWS = 2  # and more than this many rows of the longest shape, so that a single text is not costly
CHEAP = 4  # cheap requests of a batch may need this part of the deadline
TRIAL = 2  # a request that may be quick enough is tried if it needs at most this part of the host's time-out
LEAST_SHARE = 1 / 32  # of both limits, so that cheap requests are always computed
OVERLOADED = "the worker has more work than it may take at once"
LATE = "the request may have waited too long: the worker gets more work than it can compute"


class Admission:
    """Bounds the work of a batch.

    Requests are taken in ascending order of cost: cheap ones until a part of the deadline is reached, then costly ones
    until `max_batch_ms` is. A costly request may exceed that if it is nearly alone, and if no such request was computed
    in the batch before or there is nothing else to do. So a cheap request waits for one costly request at most, and
    costly ones are computed in every second batch at least while there is little other work.

    If a batch is full, and not all of it can be computed, the next batch gets half of both limits, and nothing may
    exceed them. So a queue of costly requests is soon refused, and new requests find it empty. Requests that may have
    waited too long, whose clients may have given up, are refused whatever they cost.

    A request that alone needs longer than the deadline is refused for good. If the worker has computed nothing for a
    while, its estimates may be those of a busier time. Then one that may be quick enough is computed, which corrects
    them. So is one that takes too long because of other work on the cores. Both only if the host will not give up the
    worker meanwhile.

    Args:
        models: the costs of each model of the worker.
        max_batch_ms: estimated milliseconds of work in a batch with costly requests.
        deadline_ms: milliseconds that a request may take.
        response_timeout_ms: milliseconds after which the host gives up a worker that does not answer.
        backlog: what is known of the queue.
        pace: what calls take now, as a multiple of the times behind the costs.
    """

    def __init__(
        self,
        models: Sequence[Costs],
        max_batch_ms: float,
        deadline_ms: float,
        response_timeout_ms: float,
        backlog: Backlog,
        pace: Pace,
    ) -> None:
        self._models = models
        self._max_batch_ms = max_batch_ms
        self._longest_row = max(model.longest_row for model in models)
        self._deadline_ms = deadline_ms
        self._trial_ms = response_timeout_ms / TRIAL
        self._backlog = backlog
        self._pace = pace
        self._share = 1.0  # of the limits that this batch gets
        self._exceeded = False
        self._full = self._late = self._unread = False

    @contextmanager
    def batch(self, requests: int) -> Iterator[None]:
        """A batch of so many requests is handed over, and has been answered when the block ends, however it ends."""
        self._full = requests >= self._backlog.batch_size
        self._late = self._backlog.begin(requests)
        self._unread = False
        try:
            yield
        finally:
            self._backlog.end()

    def refusal_unread(self, size: int) -> RequestError | None:
        """Why a request whose body has this number of bytes is not even read; None if it is.

        While a queue is refused, reading its requests would take longer than computing the others.
        """
        if self._late:
            return RequestError("Overloaded", LATE)
        cost = min(model.of_body(size) for model in self._models) * self._pace.value
        if self._share == 1 or cost <= self._limit(cost):
            return None
        self._unread = True
        return RequestError("Overloaded", OVERLOADED)

    def refusals(self, costs: Sequence[float], switching: float = 0.0) -> list[RequestError | None]:
        """For each request of the batch that was read, why it is not computed; None if it is.

        Args:
            costs: the milliseconds of each at the times of the worker's start.
            switching: milliseconds that the batch needs to switch between models.
        """
        now = [cost * self._pace.value for cost in costs]
        possible = {index: now[index] for index, cost in enumerate(costs) if self._is_possible(cost)}
        admitted = self._choose(possible, switching)
        refusals: list[RequestError | None] = [RequestError("Overloaded", OVERLOADED) for _ in costs]
        for index, cost in enumerate(now):
            if index not in possible:
                message = f"the request needs about {cost / 1000:.1f} s; the deadline is {self._deadline_ms / 1000:g} s"
                refusals[index] = RequestError("TooMuchWork", message)
            elif index in admitted:
                refusals[index] = None
        return refusals

    def _is_possible(self, cost: float) -> bool:
        """Whether a request may be answered before the deadline, now or at a better time."""
        least, now = cost * self._pace.least, cost * self._pace.value
        return least <= self._deadline_ms and now <= max(self._deadline_ms, self._trial_ms)

    @property
    def _costly_ms(self) -> float:
        """What a request needs if it is costly."""
        return max(self._max_batch_ms / COSTLY, ROWS * self._longest_row * self._pace.value)

    def _choose(self, costs: Mapping[int, float], switching: float) -> set[int]:
        """The requests that are computed; `costs` has the estimated milliseconds of each, by its number."""
        admitted: set[int] = set()
        total, exceeded = 0.0, False
        for index in sorted(costs, key=costs.__getitem__):
            if total + costs[index] > self._limit(costs[index], switching):
                nearly_alone = total <= self._costly_ms and not (admitted and self._exceeded)
                if exceeded or self._share < 1 or not nearly_alone:
                    break
                exceeded = True
            admitted.add(index)
            total += costs[index]
        self._exceeded = exceeded
        refused = len(admitted) < len(costs) or self._unread
        self._share = max(self._share / 2, LEAST_SHARE) if self._full and refused else 1.0
        return admitted

    def _limit(self, cost: float, switching: float = 0.0) -> float:
        """Milliseconds that this batch may need with a request of this cost as its last one.

        Switching between models leaves less for costly requests; cheap ones are computed in any case.
        """
        if cost > self._costly_ms:
            return self._share * self._max_batch_ms - switching
        return self._share * self._deadline_ms / CHEAP
