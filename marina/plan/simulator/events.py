"""Events: what they are, and how they are scheduled."""

from __future__ import annotations

import heapq

from marina.plan.simulator.state import State
from marina.plan.simulator.values import Machines, Requests, compiled

# a time, a kind, its subject (a request, a station, a worker or an instance), and the version of the subject
Event = tuple[float, int, int, int]
ARRIVE, ENTER, WAITED, BEGIN, END, FAIL = range(6)
RETRY_MS = 1.0  # after a refusal, in a closed loop


@compiled
def send_next(state: State, requests: Requests, events: list[Event], at: float) -> None:
    """In a closed loop, send the next request at this time."""
    request = state.next_request[0]
    if requests.connections and request < requests.model.size:
        heapq.heappush(events, (at, ARRIVE, request, 0))
        state.next_request[0] += 1


@compiled
def schedule_ends(state: State, machines: Machines, events: list[Event], instance: int) -> None:
    """Schedule the ends of all batches of an instance anew."""
    workers = machines.worker_cores.shape[0]
    for worker in range(instance * workers, (instance + 1) * workers):
        if state.cores.running[worker]:
            state.cores.version[worker] += 1
            left = max(0.0, state.cores.work[worker]) / state.cores.speed[worker]
            heapq.heappush(events, (state.cores.since[worker] + left, END, worker, state.cores.version[worker]))
