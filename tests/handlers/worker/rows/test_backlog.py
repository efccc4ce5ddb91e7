"""How long requests may have waited, against a queue that is simulated."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.rows.backlog import IDLE_S, Backlog

BATCH, QUEUE = 4, 10


def test_a_worker_that_waited_gets_new_requests() -> None:
    now = 0.0
    backlog = Backlog(BATCH, QUEUE, lambda: now)
    assert backlog.begin(BATCH) == 0
    now = 3.0
    backlog.end()
    assert backlog.begin(BATCH) == 3.0
    backlog.end()
    now += 2 * IDLE_S
    assert backlog.begin(BATCH) == 0


def test_a_batch_that_is_not_full_empties_the_queue() -> None:
    now = 0.0
    backlog = Backlog(BATCH, QUEUE, lambda: now)
    waited = []
    for requests in (4, 4, 1, 4, 4):
        waited.append(backlog.begin(requests))
        now += 1
        backlog.end()
    assert waited == [0, 1, 2, 1, 2]


def test_nobody_waits_longer_than_the_queue_takes() -> None:
    now = 0.0
    backlog = Backlog(BATCH, QUEUE, lambda: now)
    waited = []
    for _ in range(8):
        waited.append(backlog.begin(BATCH))
        now += 1
        backlog.end()
    assert waited == [0, 1, 2, 3, 3, 3, 3, 3]  # ten requests are three batches


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0.001, 1)), min_size=1, max_size=60))
def test_the_bound_holds_for_any_load(steps: list[tuple[int, float]]) -> None:
    """In each step requests arrive while a batch is computed; those that find the queue full are refused."""
    now = 0.0
    backlog = Backlog(BATCH, QUEUE, lambda: now)
    queue: deque[float] = deque()
    for arrivals, took in steps:
        if not queue:  # the worker waits for the next request
            now += 1.0
            queue.append(now)
        batch = [queue.popleft() for _ in range(min(BATCH, len(queue)))]
        assert now - min(batch) <= backlog.begin(len(batch)) + 1e-9
        for place in range(arrivals):
            if len(queue) < QUEUE:
                queue.append(now + took * place / 9)
        now += took
        backlog.end()
