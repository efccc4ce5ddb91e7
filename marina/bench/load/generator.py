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

MAX_WAIT_S = 0.2  # between checks for a message from the parent
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
        answered_by_second: number of successful requests, by the second in which the answer arrived.
        errors: number of failed requests, by kind of error.
        latencies: histogram of the latencies of successful requests.
        send_delays: histogram of the delays after the intended send time, for requests that had a free connection.
        cpu_s, waited_s: seconds that the process computed, and seconds that it waited for a core.
        last: whether this is the last sample of the process.
    """

    number: int
    begin: float
    seconds: float = 0.0
    answered_by_second: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: str = ""
    send_delays: str = ""
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
        self._next_request = process  # every process starts at another request
        self._slot_count = share(load.connections, process, load.processes)
        self._transport = open_transport(
            target, self._slot_count, load.timeout_s, sub_millisecond=load.rate is not None
        )
        # the last freed slot is used first, as in a client's pool, so that no more connections open than needed
        self._free_slots = list(range(self._slot_count))[::-1]
        self._intended_times: dict[int, float] = {}  # intended send times of requests in flight, by slot
        self._sent_times: dict[int, float] = {}  # their actual send times by slot, oldest first
        self._backlog: deque[float] = deque()  # intended send times of requests without a slot
        self._retrying_slots: deque[tuple[float, int]] = deque()  # when failed slots retry, and the slots
        self._schedule = self._send_times(start, process) if load.rate else None
        self._next_send_time = next(self._schedule) if self._schedule else math.inf
        self._measured_from = start + load.warm_up_s
        self._requests_left = share(load.requests, process, load.processes) if load.requests else math.inf
        self._start = start

    def _send_times(self, start: float, process: int) -> Iterator[float]:
        assert self._load.rate is not None
        for at in arrival_times(self._load.arrivals, self._load.rate, process, self._load.processes):
            yield start + at

    def run(self) -> None:
        time.sleep(max(0.0, self._start - time.monotonic()))
        self._start_window(WARM_UP, self._start)
        last_message_check = self._start
        while self._requests_left > 0:
            now = time.monotonic()
            if now >= self._window_end():
                self._send_sample(now)
                self._start_window(self._sample.number + 1, now)
            if now >= last_message_check + MAX_WAIT_S:
                last_message_check = now
                if self._pipe.poll() and self._pipe.recv() == "stop":
                    break
            self._send_due(now)
            for outcome in self._transport.poll(self._poll_timeout(now)):
                self._record_end(outcome)
            self._time_out_requests(time.monotonic())
        self._finish()

    def _start_window(self, number: int, now: float) -> None:
        self._sample = WindowSample(number, now)
        self._latencies, self._send_delays = new_histogram(), new_histogram()
        self._cpu_start_s, self._waited_start_s = time.process_time(), _waited_s()

    def _window_end(self) -> float:
        return self._measured_from + (self._sample.number + 1) * self._load.window_s

    def _send_due(self, now: float) -> None:
        while self._retrying_slots and self._retrying_slots[0][0] <= now:
            self._free_slots.append(self._retrying_slots.popleft()[1])
        if self._schedule is None:
            while self._free_slots and self._requests_left > 0:
                self._send(self._free_slots.pop(), time.monotonic())
            return
        while self._next_send_time <= now and self._requests_left > 0:
            if self._free_slots and self._next_send_time >= self._measured_from:
                record(self._send_delays, now - self._next_send_time)
            self._backlog.append(self._next_send_time)
            self._next_send_time = next(self._schedule)
            self._count_request(self._backlog[-1])
        while self._backlog and self._free_slots:
            self._send(self._free_slots.pop(), self._backlog.popleft())

    def _send(self, slot: int, intended_time: float) -> None:
        self._intended_times[slot] = intended_time
        self._sent_times[slot] = time.monotonic()
        if self._schedule is None:
            self._count_request(intended_time)
        self._transport.send(slot, self._requests[self._next_request % len(self._requests)])
        self._next_request += self._load.processes

    def _count_request(self, intended_time: float) -> None:
        if intended_time >= self._measured_from:
            self._requests_left -= 1

    def _poll_timeout(self, now: float) -> float:
        until = min(self._window_end(), self._next_send_time, now + MAX_WAIT_S)
        if self._retrying_slots:
            until = min(until, self._retrying_slots[0][0])
        return until - now

    def _record_end(self, outcome: RequestEnd) -> None:
        intended_time = self._intended_times.pop(outcome.slot)
        del self._sent_times[outcome.slot]
        if outcome.error == OK:
            self._free_slots.append(outcome.slot)
            if outcome.at >= self._measured_from:
                self._sample.answered_by_second[int(outcome.at - self._measured_from)] += 1
        else:
            self._retrying_slots.append((outcome.at + RETRY_S, outcome.slot))
        if intended_time < self._measured_from:
            return
        if outcome.error == OK:
            record(self._latencies, outcome.at - intended_time)
        else:
            self._sample.errors[outcome.error] += 1

    def _time_out_requests(self, now: float) -> None:
        """Time out requests that have waited too long; slots are ordered by send time."""
        while self._sent_times:
            slot, sent_at = next(iter(self._sent_times.items()))
            if now - sent_at < self._load.timeout_s:
                return
            self._transport.abandon(slot)
            self._record_end(RequestEnd(slot, f"no answer in {self._load.timeout_s:g} s", now))

    def _send_sample(self, now: float) -> None:
        sample = self._sample
        if sample.number == WARM_UP:
            return
        sample.seconds = now - sample.begin
        sample.latencies, sample.send_delays = encoded(self._latencies), encoded(self._send_delays)
        sample.cpu_s = time.process_time() - self._cpu_start_s
        sample.waited_s = _waited_s() - self._waited_start_s
        self._pipe.send(sample)

    def _finish(self) -> None:
        """Stop sending, wait for the requests in flight, and report them."""
        end = time.monotonic()
        answered_in_time = self._sample.answered_by_second.copy()
        if self._backlog:
            self._sample.errors[NEVER_SENT] += len(self._backlog)
        while self._intended_times:
            for outcome in self._transport.poll(MAX_WAIT_S):
                self._record_end(outcome)
            self._time_out_requests(time.monotonic())
        if self._load.requests:
            end = time.monotonic()
        else:
            self._sample.answered_by_second = answered_in_time
        self._sample.last = True
        self._send_sample(end)
        self._transport.close()


def share(total: int, process: int, processes: int) -> int:
    """The share of one process; the shares of all processes add up to `total` and differ by at most 1."""
    return total // processes + (process < total % processes)


def _waited_s() -> float:
    """Seconds that this thread was runnable but had no core; 0 if the kernel does not count them."""
    try:
        return int(SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
