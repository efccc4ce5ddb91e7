"""When requests may be late, against a queue that is simulated."""

from __future__ import annotations

import itertools
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.admission.backlog import (
    LATE_DIVISOR,
    PROBE_DEADLINES,
    TRANSITIONS,
    Backlog,
    QueueEvent,
    QueueState,
)

BATCH, QUEUE = 4, 40
DEADLINE_S = 4.0
LIMIT_S = DEADLINE_S / LATE_DIVISOR


class Queue:
    """TorchServe's queue, and a worker that needs 100 ms for a request, and 1 ms to refuse one."""

    def __init__(self, queue_size: int = QUEUE) -> None:
        self.now = 0.0
        self.backlog = Backlog(BATCH, queue_size, DEADLINE_S, lambda: self.now)
        self.queue_size = queue_size
        self.waiting: deque[float] = deque()  # when each came
        self.waits: list[float] = []  # of the requests that were computed
        self.refused: list[float] = []  # the waits of the others
        self.came = 0.0  # requests that have come, and a part of the next

    def pass_time(self, seconds: float, rate: float) -> None:
        """Requests come, so many a second; those that find the queue full are refused by TorchServe."""
        for _ in range(round(seconds * 1000)):
            self.now += 0.001
            self.came += rate / 1000
            while self.came >= 1:
                self.came -= 1
                if len(self.waiting) < self.queue_size:
                    self.waiting.append(self.now)

    def hand_over(self, rate: float, at_most: int = BATCH) -> bool:
        """The next batch, of at most so many; returns whether it was refused."""
        while not self.waiting:
            self.pass_time(0.001, rate)
        batch = [self.waiting.popleft() for _ in range(min(at_most, len(self.waiting)))]
        started = self.now
        refused = self.backlog.begin(len(batch))
        (self.refused if refused else self.waits).extend(started - came for came in batch)
        self.pass_time(len(batch) * (0.001 if refused else 0.1), rate)
        self.backlog.end()
        return refused

    def run(self, seconds: float, rate: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.hand_over(rate)


def test_a_worker_that_waited_gets_new_requests() -> None:
    queue = Queue()
    for _ in range(100):
        queue.hand_over(rate=0.1)
    assert not queue.refused


def test_a_queue_that_stays_short_is_not_refused() -> None:
    queue = Queue()
    queue.run(100, rate=9.5)
    assert not queue.refused
    assert max(queue.waits) < 1


def test_under_overload_no_request_is_computed_that_waited_longer_than_the_limit() -> None:
    queue = Queue()
    queue.run(100, rate=20)
    assert max(queue.waits) <= LIMIT_S
    computed = len(queue.waits) * 0.1
    assert computed > 0.95 * queue.now


def test_the_queue_is_refused_until_it_is_empty() -> None:
    queue = Queue()
    while not queue.hand_over(rate=20):
        pass
    waiting = len(queue.waiting)
    assert waiting > BATCH
    while queue.hand_over(rate=20):
        pass
    assert len(queue.refused) >= waiting
    queue.run(LIMIT_S / 2, rate=20)
    assert max(queue.waits[-BATCH:]) < LIMIT_S


def test_one_batch_that_is_not_full_says_nothing_of_the_queue() -> None:
    """TorchServe cuts a batch short when its time is over, although requests wait."""
    queue = Queue()
    for number in range(100):
        queue.hand_over(rate=20, at_most=2 if number % 5 == 0 else BATCH)
    assert max(queue.waits) <= LIMIT_S


def test_what_had_to_be_refused_says_how_fast_the_wait_grows() -> None:
    """A tenth more comes than the worker computes, so requests wait long only after a long time."""
    queue = Queue()
    queue.run(400, rate=11)
    assert max(queue.waits) <= LIMIT_S
    refused = len(queue.refused) / (len(queue.refused) + len(queue.waits))
    assert 1 / 11 - 0.02 < refused < 1 / 11 + 0.02


def test_connections_that_send_again_at_once_are_rarely_refused() -> None:
    """Twice as many as a batch holds: all batches are full, and nobody waits longer than a batch takes."""
    queue = Queue()
    idle = deque([0.0] * 2 * BATCH)  # when each connection sends its next request
    refused = 0
    while queue.now < 200:
        while (idle and idle[0] <= queue.now) or not queue.waiting:
            queue.waiting.append(max(idle.popleft(), queue.now - 0.1))
        answered = min(BATCH, len(queue.waiting))
        refused += queue.hand_over(rate=0)
        idle.extend([queue.now + 0.01] * answered)
    assert max(queue.waits) < 1
    # the worker looks how many wait when the deadline has passed a few times
    assert 0 < refused <= 3 * queue.now / (PROBE_DEADLINES * DEADLINE_S)


def test_a_queue_that_is_refused_ends_although_requests_come_faster() -> None:
    queue = Queue()
    queue.run(60, rate=3000)
    assert len(queue.waits) > 0.5 * queue.now / 0.1
    assert max(queue.waits) <= LIMIT_S


def test_more_load_than_before_is_late_once_at_most() -> None:
    queue = Queue()
    queue.run(50, rate=10.5)
    queue.waits.clear()
    queue.run(200, rate=30)
    assert sum(wait > LIMIT_S for wait in queue.waits) < PROBE_DEADLINES * DEADLINE_S / 0.1


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=60), st.integers(4, 60))
def test_no_request_waits_longer_than_the_limit(steps: list[tuple[int, bool]], queue_size: int) -> None:
    """Whatever comes before the queue is emptied for the first time, and though TorchServe cuts every other batch."""
    queue = Queue(queue_size)
    was_cut = False
    for rate, cut in steps:
        was_cut = cut and not was_cut and len(queue.waiting) > BATCH
        if queue.hand_over(rate + 0.5, 1 if was_cut else BATCH):
            break
    assert max(queue.waits, default=0.0) <= LIMIT_S + 0.0015  # the steps of the simulation


def test_an_empty_queue_is_computed_and_only_late_requests_are_refused() -> None:
    assert set(TRANSITIONS) == set(itertools.product(QueueState, QueueEvent))
    for (_, event), after in TRANSITIONS.items():
        assert after is (QueueState.COMPUTED if event is QueueEvent.EMPTY else QueueState.REFUSED)


def test_a_slow_batch_with_few_requests_refuses_none_after_it() -> None:
    """Both are not full, so the first emptied the queue: who comes meanwhile has waited for the first alone."""
    now = 0.0
    backlog = Backlog(BATCH, 640, DEADLINE_S, lambda: now)
    refused = []
    for seconds in (0.003, 0.003, 0.6 * DEADLINE_S, 0.003):
        refused.append(backlog.begin(2))
        now += seconds
        backlog.end()
        now += 0.001
    assert refused == [False] * 4
    assert backlog.begin(2) is False


def test_requests_that_came_before_a_batch_longer_than_the_deadline_are_refused() -> None:
    now = 0.0
    backlog = Backlog(BATCH, 640, DEADLINE_S, lambda: now)
    for seconds in (0.003, 1.1 * DEADLINE_S):
        backlog.begin(2)
        now += seconds
        backlog.end()
        now += 0.001
    assert backlog.begin(2) is True
