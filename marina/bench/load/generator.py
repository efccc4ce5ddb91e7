"""One process of the load generator: sends by the schedule, and counts what comes back, window by window.

An open loop's latency counts from when a request was meant to be sent, so that a server that stalls
is charged for all who would have come meanwhile. What was sent is never dropped: after the last
window everything in flight is waited for, and what has no answer then is an error.
"""

from __future__ import annotations

import math
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from marina.bench.load.arrivals import arrival_times
from marina.bench.load.histogram import encoded, new_histogram, record
from marina.bench.load.profile import Load, Target
from marina.bench.load.transport import OK, Outcome, open_transport

LONGEST_WAIT_S = 0.2  # between looks for a message of the parent
NEVER_SENT = "never sent: all connections were taken"
WARM_UP = -1  # the number of the window that does not count
RETRY_S = 0.05  # before a connection that failed is tried again
SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass
class Sample:
    """What one process saw in one window.

    Attributes:
        number: of the window.
        begin, seconds: when it began (time.monotonic), and how long it was.
        answered: requests with a good answer, by the second in which it came.
        errors: requests by kind of error.
        latencies: histogram of the good answers.
        late: histogram of how long after the intended time requests left, where a connection was free.
        cpu_s, waited_s: seconds that the process computed, and that it waited for a core.
        last: whether the process is done.
    """

    number: int
    begin: float
    seconds: float = 0.0
    answered: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: str = ""
    late: str = ""
    cpu_s: float = 0.0
    waited_s: float = 0.0
    last: bool = False


def run_generator(pipe: Connection, target: Target, load: Load, requests: list[bytes], process: int) -> None:
    """The life of one process: says "ready", takes the time to start, sends a `Sample` after every window.

    Ends when told "stop", when its parent is gone, or with its part of `load.requests`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send("ready")
    try:
        start: float = pipe.recv()
        _Generator(pipe, target, load, requests, process, start).run()
    except (EOFError, BrokenPipeError):
        pass


class _Generator:
    def __init__(
        self, pipe: Connection, target: Target, load: Load, requests: list[bytes], process: int, start: float
    ) -> None:
        self._pipe = pipe
        self._load = load
        self._requests = requests
        self._next = process  # processes start at different requests
        self._slots = share(load.connections, process, load.processes)
        self._transport = open_transport(target, self._slots, load.timeout_s, fine=load.rate is not None)
        # the one that was free last goes first, as in a client's pool: no more connections than are needed
        self._free = list(range(self._slots))[::-1]
        self._intended: dict[int, float] = {}  # by slot, of the requests in flight
        self._sent: dict[int, float] = {}  # the same, oldest first
        self._backlog: deque[float] = deque()  # intended times that wait for a slot
        self._resting: deque[tuple[float, int]] = deque()  # slots that failed, and when they go on
        self._schedule = self._times(start, process) if load.rate else None
        self._due = next(self._schedule) if self._schedule else math.inf
        self._begin = start + load.warm_up_s
        self._left = share(load.requests, process, load.processes) if load.requests else math.inf
        self._start = start

    def _times(self, start: float, process: int) -> Iterator[float]:
        assert self._load.rate is not None
        for at in arrival_times(self._load.arrivals, self._load.rate, process, self._load.processes):
            yield start + at

    def run(self) -> None:
        time.sleep(max(0.0, self._start - time.monotonic()))
        self._open(WARM_UP, self._start)
        looked = self._start
        while self._left > 0:
            now = time.monotonic()
            if now >= self._ends():
                self._report(now)
                self._open(self._sample.number + 1, now)
            if now >= looked + LONGEST_WAIT_S:
                looked = now
                if self._pipe.poll() and self._pipe.recv() == "stop":
                    break
            self._send_due(now)
            for outcome in self._transport.poll(self._wait(now)):
                self._count(outcome)
            self._give_up(time.monotonic())
        self._finish()

    def _open(self, number: int, now: float) -> None:
        self._sample = Sample(number, now)
        self._latencies, self._late = new_histogram(), new_histogram()
        self._cpu, self._waited = time.process_time(), _waited_s()

    def _ends(self) -> float:
        return self._begin + (self._sample.number + 1) * self._load.window_s

    def _send_due(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            self._free.append(self._resting.popleft()[1])
        if self._schedule is None:
            while self._free and self._left > 0:
                self._send(self._free.pop(), time.monotonic())
            return
        while self._due <= now and self._left > 0:
            if self._free and self._due >= self._begin:
                record(self._late, now - self._due)
            self._backlog.append(self._due)
            self._due = next(self._schedule)
            self._counted(self._backlog[-1])
        while self._backlog and self._free:
            self._send(self._free.pop(), self._backlog.popleft())

    def _send(self, slot: int, intended: float) -> None:
        self._intended[slot] = intended
        self._sent[slot] = time.monotonic()
        if self._schedule is None:
            self._counted(intended)
        self._transport.send(slot, self._requests[self._next % len(self._requests)])
        self._next += self._load.processes

    def _counted(self, intended: float) -> None:
        if intended >= self._begin:
            self._left -= 1

    def _wait(self, now: float) -> float:
        until = min(self._ends(), self._due, now + LONGEST_WAIT_S)
        if self._resting:
            until = min(until, self._resting[0][0])
        return until - now

    def _count(self, outcome: Outcome) -> None:
        intended = self._intended.pop(outcome.slot)
        del self._sent[outcome.slot]
        if outcome.error == OK:
            self._free.append(outcome.slot)
            if outcome.at >= self._begin:
                self._sample.answered[int(outcome.at - self._begin)] += 1
        else:
            self._resting.append((outcome.at + RETRY_S, outcome.slot))
        if intended < self._begin:
            return
        if outcome.error == OK:
            record(self._latencies, outcome.at - intended)
        else:
            self._sample.errors[outcome.error] += 1

    def _give_up(self, now: float) -> None:
        """End requests that have waited too long; slots are in the order in which they sent."""
        while self._sent:
            slot, at = next(iter(self._sent.items()))
            if now - at < self._load.timeout_s:
                return
            self._transport.abandon(slot)
            self._count(Outcome(slot, f"no answer in {self._load.timeout_s:g} s", now))

    def _report(self, now: float) -> None:
        sample = self._sample
        if sample.number == WARM_UP:
            return
        sample.seconds = now - sample.begin
        sample.latencies, sample.late = encoded(self._latencies), encoded(self._late)
        sample.cpu_s = time.process_time() - self._cpu
        sample.waited_s = _waited_s() - self._waited
        self._pipe.send(sample)

    def _finish(self) -> None:
        """Send no more, wait for what is in flight, and report it."""
        ended = time.monotonic()
        in_time = self._sample.answered.copy()
        if self._backlog:
            self._sample.errors[NEVER_SENT] += len(self._backlog)
        while self._intended:
            for outcome in self._transport.poll(LONGEST_WAIT_S):
                self._count(outcome)
            self._give_up(time.monotonic())
        if self._load.requests:
            ended = time.monotonic()
        else:
            self._sample.answered = in_time
        self._sample.last = True
        self._report(ended)
        self._transport.close()


def share(whole: int, process: int, processes: int) -> int:
    """The part of a whole that one process takes; parts differ by one at most and add up."""
    return whole // processes + (process < whole % processes)


def _waited_s() -> float:
    """Seconds that this thread was ready to compute and had no core; 0 where the kernel does not count."""
    try:
        return int(SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
