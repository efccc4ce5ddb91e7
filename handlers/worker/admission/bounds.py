"""Chooses the requests of a batch that are computed, so that costly requests do not make cheap ones wait for long.

TorchServe hands a worker up to batch_size requests at once, whatever they cost, and waits for all answers together.
A request that is not computed is refused with 503 at once; its client may send it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from handlers.worker.admission.backlog import Backlog
from handlers.worker.admission.costs import Costs
from handlers.worker.admission.pace import Pace
from handlers.worker.errors import RequestError

COSTLY_DIVISOR = 4  # a request is costly if it needs more than `max_batch_ms` divided by this
COSTLY_ROWS = 2  # and more than this many rows of the longest shape, so that a single text is not costly
CHEAP_DIVISOR = 4  # cheap requests of a batch may need the deadline divided by this
TRIAL_DIVISOR = 2  # a request that may be quick enough is tried if it needs at most the host's time-out divided by this
MIN_SHARE = 1 / 32  # of both limits, so that cheap requests are always computed
OVERLOADED = "the worker has more work than it may take at once"
LATE = "the request may have waited too long: the worker gets more work than it can compute"


class Admission:
    """Bounds the work of a batch.

    Requests are taken in ascending order of cost: cheap ones until a part of the deadline is reached, then costly ones
    until `max_batch_ms` is. A costly request may exceed that limit if it is nearly alone, and if the previous batch had
    no such request or there is nothing else to do. So a cheap request waits for one costly request at most, and
    costly ones are computed in every second batch at least while there is little other work.

    If a batch is full, and not all of it can be computed, the next batch gets half of both limits, and nothing may
    exceed them. So a queue of costly requests is soon refused, and new requests find it empty. Requests that may have
    waited too long, whose clients may have given up, are refused whatever they cost.

    A request that alone needs longer than the deadline is refused for good. There are two exceptions. If the worker has
    computed nothing for a while, its estimates may come from a busier time: a request that may be quick enough is
    computed, which corrects the estimates. A request is also computed if it takes too long only because of other work
    on the cores. Both hold only if the host will not give up the worker meanwhile.

    Args:
        model_costs: the costs of each model of the worker.
        max_batch_ms: estimated milliseconds of work in a batch with costly requests.
        deadline_ms: milliseconds that a request may take.
        response_timeout_ms: milliseconds after which the host gives up a worker that does not answer.
        backlog: estimates the queue.
        pace: the time of calls at present, as a multiple of the times behind the costs.
    """

    def __init__(
        self,
        model_costs: Sequence[Costs],
        max_batch_ms: float,
        deadline_ms: float,
        response_timeout_ms: float,
        backlog: Backlog,
        pace: Pace,
    ) -> None:
        self._model_costs = model_costs
        self._max_batch_ms = max_batch_ms
        self._longest_row_ms = max(costs.longest_row_ms for costs in model_costs)
        self._deadline_ms = deadline_ms
        self._trial_ms = response_timeout_ms / TRIAL_DIVISOR
        self._backlog = backlog
        self._pace = pace
        self._share = 1.0  # of the limits that this batch gets
        self._exceeded = False  # whether the previous batch exceeded its limit
        self._full = self._late = self._refused_unread = False

    @contextmanager
    def batch(self, requests: int) -> Iterator[None]:
        """A batch of so many requests is handed over, and has been answered when the block ends, however it ends."""
        self._full = requests >= self._backlog.batch_size
        self._late = self._backlog.begin(requests)
        self._refused_unread = False
        try:
            yield
        finally:
            self._backlog.end()

    def refusal_unread(self, size: int) -> RequestError | None:
        """The error for a request that is refused by the size of its body, before it is read; None if it is read.

        While a queue is refused, reading its requests would take longer than computing the rest.
        """
        if self._late:
            return RequestError("Overloaded", LATE)
        cost = min(costs.of_body(size) for costs in self._model_costs) * self._pace.value
        if self._share == 1 or cost <= self._limit(cost):
            return None
        self._refused_unread = True
        return RequestError("Overloaded", OVERLOADED)

    def refusals(self, costs: Sequence[float], switch_ms: float = 0.0) -> list[RequestError | None]:
        """For each request of the batch that was read, the error if it is refused; None if it is computed.

        Args:
            costs: the milliseconds of each request at the times of the worker's start.
            switch_ms: milliseconds that the batch needs to switch between models.
        """
        current_costs = [cost * self._pace.value for cost in costs]
        possible_costs = {index: current_costs[index] for index, cost in enumerate(costs) if self._is_possible(cost)}
        admitted = self._choose(possible_costs, switch_ms)
        refusals: list[RequestError | None] = [RequestError("Overloaded", OVERLOADED) for _ in costs]
        for index, cost in enumerate(current_costs):
            if index not in possible_costs:
                message = f"the request needs about {cost / 1000:.1f} s; the deadline is {self._deadline_ms / 1000:g} s"
                refusals[index] = RequestError("TooMuchWork", message)
            elif index in admitted:
                refusals[index] = None
        return refusals

    def _is_possible(self, cost: float) -> bool:
        """Whether a request may be answered before the deadline, at the present or at the best pace."""
        best_cost, current_cost = cost * self._pace.best, cost * self._pace.value
        return best_cost <= self._deadline_ms and current_cost <= max(self._deadline_ms, self._trial_ms)

    @property
    def _costly_ms(self) -> float:
        """The milliseconds above which a request is costly."""
        return max(self._max_batch_ms / COSTLY_DIVISOR, COSTLY_ROWS * self._longest_row_ms * self._pace.value)

    def _choose(self, costs: Mapping[int, float], switch_ms: float) -> set[int]:
        """The numbers of the requests that are computed; `costs` has the estimated milliseconds of each, by number."""
        admitted: set[int] = set()
        total, exceeded = 0.0, False
        for index in sorted(costs, key=costs.__getitem__):
            if total + costs[index] > self._limit(costs[index], switch_ms):
                nearly_alone = total <= self._costly_ms and not (admitted and self._exceeded)
                if exceeded or self._share < 1 or not nearly_alone:
                    break
                exceeded = True
            admitted.add(index)
            total += costs[index]
        self._exceeded = exceeded
        refused = len(admitted) < len(costs) or self._refused_unread
        self._share = max(self._share / 2, MIN_SHARE) if self._full and refused else 1.0
        return admitted

    def _limit(self, cost: float, switch_ms: float = 0.0) -> float:
        """The milliseconds that this batch may need, if its last request has this cost.

        Switching between models leaves less for costly requests; cheap ones are computed in any case.
        """
        if cost > self._costly_ms:
            return self._share * self._max_batch_ms - switch_ms
        return self._share * self._deadline_ms / CHEAP_DIVISOR
