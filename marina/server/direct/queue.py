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
MAX_BYTES = 256 << 20  # of the bodies that wait


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
        state: where it is.
        tries: how many workers have taken it.
        reply: the caller's own; this file does not read it.
    """

    __slots__ = ("arrived", "body", "headers", "reply", "state", "tries")

    def __init__(self, body: bytes, headers: Mapping[str, str], arrived: float, reply: Any = None) -> None:
        self.body, self.headers, self.arrived, self.reply = body, headers, arrived, reply
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

    Args:
        batch_size: the most requests of a batch.
        capacity: the most requests that wait.
        deadline_s: how long a request may wait.
    """

    def __init__(self, batch_size: int, capacity: int, deadline_s: float) -> None:
        self._batch_size, self._capacity, self._deadline_s = batch_size, capacity, deadline_s
        self._waiting: deque[Request] = deque()
        self._bytes = 0
        self.computing = 0

    @property
    def waiting(self) -> int:
        """How many requests wait, those included whose clients have gone since."""
        return len(self._waiting)

    def offer(self, request: Request) -> bool:
        """Accept a request; False if the queue is full."""
        if len(self._waiting) >= self._capacity or self._bytes + len(request.body) > MAX_BYTES:
            self._forget_left()
        has_place = len(self._waiting) < self._capacity and self._bytes + len(request.body) <= MAX_BYTES
        request.happens(Event.ACCEPT if has_place else Event.REFUSE)
        if has_place:
            self._waiting.append(request)
            self._bytes += len(request.body)
        return has_place

    def leave(self, request: Request) -> None:
        """The client of a request has gone: it is not computed any more, if no worker has it yet."""
        if (request.state, Event.LEAVE) in TRANSITIONS:
            request.happens(Event.LEAVE)

    def take(self, now: float, idle_workers: int) -> Taken:
        """What one of the idle workers takes: its share of what waits. The batch is empty if nothing does.

        A request whose worker died is taken alone, so that no other shares its fate again.
        """
        expired: list[Request] = []
        batch: list[Request] = []
        size = min(self._batch_size, -(-len(self._waiting) // max(1, idle_workers)))
        while self._waiting and len(batch) < size:
            request = self._waiting[0]
            if request.state is State.WAITING and request.tries and batch:
                break
            self._waiting.popleft()
            self._bytes -= len(request.body)
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
        self.computing += len(batch)
        return Taken(batch, expired)

    def expire(self, now: float) -> list[Request]:
        """The requests that have waited past their deadline, which are in the queue no more."""
        self._forget_left()
        expired = [request for request in self._waiting if now - request.arrived > self._deadline_s]
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
                self._waiting.appendleft(request)
                self._bytes += len(request.body)
        return failed

    def _forget_left(self) -> None:
        """Give the places of clients that have gone to others."""
        self._waiting = deque(request for request in self._waiting if request.state is State.WAITING)
        self._bytes = sum(len(request.body) for request in self._waiting)
