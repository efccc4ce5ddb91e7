"""One process of the load generator: sends requests on schedule, and counts the answers of each window.

In an open loop, latency is measured from the intended send time. A server that stalls is therefore
charged for all requests that would have arrived during the stall. Sent requests are never dropped:
after the last window, the process waits for all requests in flight, and those that get no answer
count as errors.
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
from marina.bench.load.transport import OK, RequestEnd, open_transport

LONGEST_WAIT_S = 0.2  # between checks for a message from the parent
NEVER_SENT = "never sent: all connections were taken"
WARM_UP = -1  # number of the window that is not counted
RETRY_S = 0.05  # before a failed connection is retried
SCHEDSTAT = Path("/proc/thread-self/schedstat")


@dataclass
class WindowSample:
    """What one process measured in one window.

    Attributes:
        number: number of the window.
        begin, seconds: start (time.monotonic) and length of the window.
        answered: number of successful requests, by the second in which the answer arrived.
        errors: number of failed requests, by kind of error.
        latencies: histogram of the latencies of successful requests.
        late: histogram of the delays after the intended send time, for requests that had a free connection.
        cpu_s, waited_s: seconds that the process computed, and seconds that it waited for a core.
        last: whether this is the last sample of the process.
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
    """Run one process: send "ready", receive the start time, then send a `WindowSample` after every window.

    Ends on the message "stop", when its parent has exited, or when its share of `load.requests` is done.
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
        # the slot that was freed last is used first, like in a client's pool, to open no more connections than needed
        self._free = list(range(self._slots))[::-1]
        self._intended: dict[int, float] = {}  # intended send times of requests in flight, by slot
        self._sent: dict[int, float] = {}  # their actual send times by slot, oldest first
        self._backlog: deque[float] = deque()  # intended send times of requests without a slot
        self._resting: deque[tuple[float, int]] = deque()  # failed slots, and when they retry
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
        self._sample = WindowSample(number, now)
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

    def _count(self, outcome: RequestEnd) -> None:
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
        """Time out requests that have waited too long; slots are ordered by send time."""
        while self._sent:
            slot, at = next(iter(self._sent.items()))
            if now - at < self._load.timeout_s:
                return
            self._transport.abandon(slot)
            self._count(RequestEnd(slot, f"no answer in {self._load.timeout_s:g} s", now))

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
        """Stop sending, wait for the requests in flight, and report them."""
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
    """The share of one process; the shares of all processes add up to `whole` and differ by at most 1."""
    return whole // processes + (process < whole % processes)


def _waited_s() -> float:
    """Seconds that this thread was runnable but had no core; 0 if the kernel does not count them."""
    try:
        return int(SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
