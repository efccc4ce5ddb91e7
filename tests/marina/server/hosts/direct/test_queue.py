"""The queue as a state machine: whatever happens in whatever order, each request ends once, and rightly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from marina.server.hosts.direct.queue import MAX_TRIES, TRANSITIONS, Event, Priority, Queue, Request, State

BATCH, CAPACITY, DEADLINE_S = 3, 5, 10.0
ENDS = {State.ANSWERED, State.REFUSED, State.EXPIRED, State.LEFT, State.FAILED}


def waiting(queue: Queue, count: int, arrived: float = 0.0) -> list[Request]:
    requests = [Request(b"%d" % number, {}, arrived) for number in range(count)]
    assert all(queue.offer(request) for request in requests)
    return requests


def test_each_state_can_be_reached_and_no_end_is_left() -> None:
    assert {state for state, _ in TRANSITIONS} == {State.NEW, State.WAITING, State.COMPUTING}
    assert {*TRANSITIONS.values(), State.NEW} == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert set(State) - {state for state, _ in TRANSITIONS} == ENDS


def test_idle_workers_share_what_waits_and_busy_ones_leave_it() -> None:
    queue = Queue(8, 100, DEADLINE_S)
    requests = waiting(queue, 10)
    assert queue.take(0, 2).batch == requests[:5]
    assert queue.take(0, 1).batch == requests[5:]
    assert queue.take(0, 1).batch == []
    assert (queue.waiting, queue.computing) == (0, 10)


def test_a_request_whose_worker_died_is_tried_once_more_and_alone() -> None:
    queue = Queue(8, 100, DEADLINE_S)
    first, second = waiting(queue, 2)
    batch = queue.take(0, 1).batch
    assert queue.lost(batch) == []
    (third,) = waiting(queue, 1)
    assert queue.take(0, 1).batch == [first]
    assert queue.lost([first]) == [first]
    assert first.state is State.FAILED
    assert queue.take(0, 1).batch == [second]
    assert queue.answered([second]) == [second]
    assert queue.take(0, 1).batch == [third]


def test_a_full_queue_refuses_and_clients_that_left_free_their_places() -> None:
    queue = Queue(8, 2, DEADLINE_S)
    requests = waiting(queue, 2)
    refused = Request(b"", {}, 0.0)
    assert not queue.offer(refused)
    assert refused.state is State.REFUSED
    queue.leave(requests[0])
    late = Request(b"", {}, 0.0)
    assert queue.offer(late)
    assert queue.take(0, 1).batch == [requests[1], late]


def test_requests_in_bulk_let_others_pass_and_leave_them_places() -> None:
    queue = Queue(8, 4, DEADLINE_S)
    bulk = [Request(b"", {}, 0.0, priority=Priority.BULK) for _ in range(3)]
    assert [queue.offer(request) for request in bulk] == [True, True, False]
    people = waiting(queue, 2)
    assert not queue.offer(Request(b"", {}, 0.0))
    assert queue.take(0, 1).batch == people
    assert queue.take(0, 1).batch == bulk[:2]
    assert queue.lost(bulk[:2]) == []
    people = waiting(queue, 1)
    assert queue.take(0, 1).batch == people
    assert queue.take(0, 1).batch == bulk[:1]


@given(st.sampled_from(State), st.sampled_from(Event))
def test_nothing_else_can_happen(state: State, event: Event) -> None:
    request = Request(b"", {}, 0.0)
    request.state = state
    if (state, event) in TRANSITIONS:
        request.happens(event)
        return
    with pytest.raises(KeyError):
        request.happens(event)


class Serving(RuleBasedStateMachine):
    """Arrivals, clients that leave, workers that answer and die, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.now = Queue(BATCH, CAPACITY, DEADLINE_S), 0.0
        self.requests: list[Request] = []
        self.batches: list[list[Request]] = []
        self.ended: Counter[int] = Counter()

    def end(self, requests: list[Request]) -> None:
        self.ended.update(map(id, requests))

    @rule(priority=st.sampled_from(Priority))
    def arrives(self, priority: Priority) -> None:
        request = Request(b"", {}, self.now, priority=priority)
        self.requests.append(request)
        if not self.queue.offer(request):
            self.end([request])

    @rule(seconds=st.floats(0, DEADLINE_S))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(idle=st.integers(1, 3))
    def a_worker_is_idle(self, idle: int) -> None:
        present = {id(request) for request in self.requests if request.state is State.WAITING}
        batch, expired = self.queue.take(self.now, idle)
        assert len(batch) <= BATCH
        assert {id(request) for request in batch} <= present, "a request was computed whose client had gone"
        assert all(self.now - request.arrived <= DEADLINE_S for request in batch)
        assert all(request.tries == 1 for request in batch) or len(batch) == 1
        assert len({request.priority for request in batch}) <= 1
        left = [request for request in self.requests if request.state is State.WAITING]
        if any(request.priority is Priority.BULK for request in batch):
            assert all(request.priority is Priority.BULK for request in left), "a person waits for a job in bulk"
        self.end(expired)
        if batch:
            self.batches.append(batch)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def a_worker_answers(self, data: Any) -> None:
        batch = self.batches.pop(data.draw(st.integers(0, len(self.batches) - 1)))
        self.end(self.queue.answered(batch))

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def a_worker_dies(self, data: Any) -> None:
        batch = self.batches.pop(data.draw(st.integers(0, len(self.batches) - 1)))
        self.end(self.queue.lost(batch))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_client_leaves(self, data: Any) -> None:
        request = self.requests[data.draw(st.integers(0, len(self.requests) - 1))]
        if request.state in (State.WAITING, State.COMPUTING):
            self.end([request])
        self.queue.leave(request)

    @invariant()
    def each_request_ends_at_most_once(self) -> None:
        for request in self.requests:
            assert self.ended[id(request)] == (request.state in ENDS), request.state
            assert request.tries <= MAX_TRIES

    @invariant()
    def memory_is_bounded(self) -> None:
        back = (State.WAITING, State.LEFT)  # after a worker died; clients may have left since
        retried = sum(request.state in back and request.tries > 0 for request in self.requests)
        assert self.queue.waiting <= CAPACITY + retried
        assert self.queue.computing == sum(map(len, self.batches))

    @rule()
    def late_ones_are_looked_for(self) -> None:
        self.end(self.queue.expire(self.now))
        waiting = [request for request in self.requests if request.state is State.WAITING]
        assert all(self.now - request.arrived <= DEADLINE_S for request in waiting)
        assert self.queue.waiting == len(waiting)

    def teardown(self) -> None:
        """Workers that answer empty the queue: no request waits forever."""
        while self.batches:
            self.queue.answered(self.batches.pop())
        while self.queue.waiting:
            self.queue.answered(self.queue.take(self.now, 1).batch)
        assert all(request.state in ENDS for request in self.requests)


Serving.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
test_whatever_happens = Serving.TestCase
