"""More work than the server can do: what is accepted is answered soon, and the rest is refused at once."""

from __future__ import annotations

import time

from tests.chaos.conftest import NAME, Record
from tests.chaos.load import Connection, body_of, plain_clients, send_and_hang_up
from tests.end_to_end.conftest import Server

SHORT = body_of(*["change company address"] * 256)
LARGEST = body_of(*["change company address " * 40] * 32)  # 32 rows of 128 tokens: max_tokens
LONG_S = 30.0  # nobody waits so long, on however slow a machine; what it takes is in the table


def ask_until_served(served: Server, body: bytes) -> str:
    """The first outcome that is not 503: a queue that clients left behind is refused unread."""
    client = Connection(served, NAME)
    until = time.monotonic() + LONG_S
    try:
        while (outcome := client.ask(body)) == "503" and time.monotonic() < until:
            pass
        return outcome
    finally:
        client.close()


def test_clients_that_hung_up_leave_no_queue(served: Server, record: Record) -> None:
    workers = served.worker_pids(NAME)
    send_and_hang_up(served, NAME, 400, SHORT)
    start = time.monotonic()
    assert ask_until_served(served, body_of("change company address")) == "200"
    waited = time.monotonic() - start
    record("after 400 clients that hung up", seconds=round(waited, 2))
    assert waited < LONG_S
    assert served.worker_pids(NAME) == workers


def test_the_largest_requests_at_once_kill_no_worker(served: Server, record: Record) -> None:
    workers = served.worker_pids(NAME)
    with plain_clients(served, NAME, 32, LARGEST, pause_s=5) as counts:
        time.sleep(0.5)
    record("32 of the largest requests at once", counts)
    assert set(counts.outcomes) == {"200", "503"}
    assert served.worker_pids(NAME) == workers


def test_a_cheap_request_does_not_wait_for_costly_ones(served: Server, record: Record) -> None:
    with plain_clients(served, NAME, 16, LARGEST, pause_s=1) as large, plain_clients(served, NAME, 1) as small:
        time.sleep(10)
    record("16 connections of the largest requests", large)
    record("a cheap request beside them", small)
    assert small.answered == small.sent > 0
    assert large.answered > 0


def test_overload_is_refused_and_the_rest_answered_before_the_deadline(served: Server, record: Record) -> None:
    with plain_clients(served, NAME, 32) as alone:
        time.sleep(6)
    with plain_clients(served, NAME, 900, pause_s=0.2) as over:
        time.sleep(10)
    share = over.answered / 10 / (alone.answered / 6)
    record("32 connections", alone)
    record("900 connections", over, **{"of capacity": f"{share:.0%}"})
    assert set(over.outcomes) <= {"200", "503"}
    assert max(over.seconds) < LONG_S
    assert over.outcomes["503"] > 0


def test_a_request_above_the_limits_is_refused_for_good(served: Server) -> None:
    assert ask_until_served(served, body_of(*["change company address " * 40] * 200)) == "413"
