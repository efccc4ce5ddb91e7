"""The requests to one version of a model: everything that changes the state of a request is here, in `TRANSITIONS`.

There are no clocks, sockets or threads in this file. A worker that is idle takes what waits, so nothing waits for a
batch to fill, and the next batch fills while a worker computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

MAX_TRIES = 2


class Priority(Enum):
    """Which requests go first, in this order."""

    INTERACTIVE = "interactive"
    BULK = "bulk"


class State(Enum):
    """Where a request is."""

    NEW = "not accepted yet"
    WAITING = "waits for a worker"
    COMPUTING = "a worker computes it"
    ANSWERED = "it has its answer"
    REFUSED = "the queue is full, or the version gets no new requests"
    EXPIRED = "it has waited longer than the deadline"
    LEFT = "its client has gone"
    FAILED = "workers have died of it"


class Event(Enum):
    """What happens to a request."""

    ACCEPT = "there is a place in the queue"
    REFUSE = "there is no place in the queue"
    TAKE = "an idle worker takes it"
    EXPIRE = "its deadline passes"
    LEAVE = "its client goes"
    ANSWER = "the worker answers"
    RETRY = "its worker dies the first time"
    GIVE_UP = "its worker dies again"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.NEW, Event.ACCEPT): State.WAITING,
    (State.NEW, Event.REFUSE): State.REFUSED,
    (State.WAITING, Event.TAKE): State.COMPUTING,
    (State.WAITING, Event.EXPIRE): State.EXPIRED,
    (State.WAITING, Event.LEAVE): State.LEFT,
    (State.COMPUTING, Event.ANSWER): State.ANSWERED,
    (State.COMPUTING, Event.LEAVE): State.LEFT,
    (State.COMPUTING, Event.RETRY): State.WAITING,
    (State.COMPUTING, Event.GIVE_UP): State.FAILED,
}


class Request:
    """A request.

    Attributes:
        body, headers: as they came.
        arrived: when, in seconds.
        priority: whether it lets others pass.
        state: where it is.
        tries: how many workers have taken it.
        reply: the caller's own; this file does not read it.
    """

    __slots__ = ("arrived", "body", "headers", "priority", "reply", "state", "tries")

    def __init__(
        self,
        body: bytes,
        headers: Mapping[str, str],
        arrived: float,
        reply: Any = None,
        priority: Priority = Priority.INTERACTIVE,
    ) -> None:
        self.body, self.headers, self.arrived, self.reply, self.priority = body, headers, arrived, reply, priority
        self.state, self.tries = State.NEW, 0

    def happens(self, event: Event) -> None:
        """Change the state; KeyError for what cannot happen to it."""
        self.state = TRANSITIONS[self.state, event]


class Taken(NamedTuple):
    """What a worker takes, and the requests that have expired meanwhile."""

    batch: list[Request]
    expired: list[Request]


class Queue:
    """The requests to one version of a model.

    Requests in bulk are taken when no interactive one waits, and have at most half of the places, so that they keep no
    place and no worker from a person who waits.

    Args:
        batch_size: the most requests of a batch.
        capacity: the most requests that wait.
        deadline_s: how long a request may wait.
    """

    def __init__(self, batch_size: int, capacity: int, deadline_s: float) -> None:
        self._batch_size, self._deadline_s = batch_size, deadline_s
        self._places = {Priority.INTERACTIVE: capacity, Priority.BULK: (capacity + 1) // 2}
        self._lines: dict[Priority, deque[Request]] = {priority: deque() for priority in Priority}
        self.computing = 0

    @property
    def waiting(self) -> int:
        """How many requests wait, those included whose clients have gone since."""
        return sum(map(len, self._lines.values()))

    def offer(self, request: Request) -> bool:
        """Accept a request; False if the queue is full."""
        if not self._has_place(request.priority):
            self._forget_left()
        has_place = self._has_place(request.priority)
        request.happens(Event.ACCEPT if has_place else Event.REFUSE)
        if has_place:
            self._lines[request.priority].append(request)
        return has_place

    def leave(self, request: Request) -> None:
        """The client of a request has gone: it is not computed any more, if no worker has it yet."""
        if request.state is State.WAITING:
            request.body = b""  # its place is given to others later, its memory at once
        if (request.state, Event.LEAVE) in TRANSITIONS:
            request.happens(Event.LEAVE)

    def take(self, now: float, idle_workers: int) -> Taken:
        """What one of the idle workers takes: its share of what waits. The batch is empty if nothing does."""
        expired: list[Request] = []
        for line in self._lines.values():
            batch = self._take_from(line, now, idle_workers, expired)
            if batch:
                self.computing += len(batch)
                return Taken(batch, expired)
        return Taken([], expired)

    def expire(self, now: float) -> list[Request]:
        """The requests that have waited past their deadline, which are in the queue no more."""
        waiting = [request for line in self._lines.values() for request in line if request.state is State.WAITING]
        expired = [request for request in waiting if now - request.arrived > self._deadline_s]
        for request in expired:
            request.happens(Event.EXPIRE)
        self._forget_left()
        return expired

    def answered(self, batch: list[Request]) -> list[Request]:
        """A worker has answered a batch; returns the requests whose clients are still there."""
        self.computing -= len(batch)
        present = [request for request in batch if request.state is State.COMPUTING]
        for request in present:
            request.happens(Event.ANSWER)
        return present

    def lost(self, batch: list[Request]) -> list[Request]:
        """A worker has died; returns the requests that no worker tries again. The others are the next to be taken."""
        self.computing -= len(batch)
        present = [request for request in batch if request.state is State.COMPUTING]
        failed = [request for request in present if request.tries >= MAX_TRIES]
        for request in failed:
            request.happens(Event.GIVE_UP)
        for request in reversed(present):
            if request.state is State.COMPUTING:
                request.happens(Event.RETRY)
                self._lines[request.priority].appendleft(request)
        return failed

    def _take_from(self, line: deque[Request], now: float, idle_workers: int, expired: list[Request]) -> list[Request]:
        """A worker's share of a line; adds to `expired` those that have waited too long.

        A request whose worker died is taken alone, so that no other shares its fate again.
        """
        batch: list[Request] = []
        size = min(self._batch_size, -(-len(line) // max(1, idle_workers)))
        while line and len(batch) < size:
            request = line[0]
            if request.state is State.WAITING and request.tries and batch:
                break
            line.popleft()
            if request.state is not State.WAITING:
                continue
            if now - request.arrived > self._deadline_s:
                request.happens(Event.EXPIRE)
                expired.append(request)
                continue
            request.happens(Event.TAKE)
            request.tries += 1
            batch.append(request)
            if request.tries > 1:
                break
        return batch

    def _has_place(self, priority: Priority) -> bool:
        # the capacity is that of all lines together
        return len(self._lines[priority]) < self._places[priority] and self.waiting < self._places[Priority.INTERACTIVE]

    def _forget_left(self) -> None:
        """Give the places of clients that have gone to others."""
        for priority, line in self._lines.items():
            self._lines[priority] = deque(request for request in line if request.state is State.WAITING)
