"""Workers and servers that die: they come back, and a client that retries loses nothing."""

from __future__ import annotations

import os
import random
import signal
import time

from marina.server.run.state import read_state
from tests.chaos.conftest import NAME, Record
from tests.chaos.load import Connection, Counts, plain_clients, retrying_clients
from tests.end_to_end.conftest import Server

KILLS = int(os.environ.get("MARINA_TEST_KILLS", "5"))
MALFORMED = 10_000


def wait_for_workers(served: Server, but: int = 0, limit_s: float = 120) -> float:
    """Wait until a worker other than `but` is READY; returns the seconds."""
    start = time.monotonic()
    while True:
        try:
            pids = served.worker_pids(NAME)
        except Exception:  # the server is being started
            pids = []
        if pids and but not in pids:
            return time.monotonic() - start
        assert time.monotonic() - start < limit_s
        time.sleep(0.2)


def test_a_retrying_client_loses_nothing_as_workers_are_killed(served: Server, record: Record) -> None:
    with retrying_clients(served, NAME, 8) as patient, plain_clients(served, NAME, 4, pause_s=0.1) as plain:
        for _ in range(KILLS):
            (pid,) = served.worker_pids(NAME)
            time.sleep(random.uniform(0.1, 1.0))
            os.kill(pid, signal.SIGKILL)
            wait_for_workers(served, but=pid)
    record(f"{KILLS} workers killed: plain clients", plain)
    record(f"{KILLS} workers killed: retrying clients", patient)
    assert patient.answered == patient.sent > 0
    assert set(plain.outcomes) <= {"200", "500", "503", "507", "TimeoutError"}


def test_a_worker_that_hangs_is_replaced(served: Server, record: Record) -> None:
    """TorchServe kills it after response_timeout_s."""
    with retrying_clients(served, NAME, 4, limit_s=240) as patient:
        time.sleep(0.5)
        (pid,) = served.worker_pids(NAME)
        os.kill(pid, signal.SIGSTOP)
        seconds = wait_for_workers(served, but=pid, limit_s=150)
        time.sleep(1)
    record("a worker that hangs: retrying clients", patient, **{"back in s": round(seconds, 1)})
    assert patient.answered == patient.sent > 0


def test_a_server_that_is_killed_is_started_again(served: Server, record: Record) -> None:
    state = read_state(served.project)
    assert state is not None
    (worker,) = served.worker_pids(NAME)
    with retrying_clients(served, NAME, 4) as patient:
        time.sleep(0.5)
        os.kill(state.pid, signal.SIGKILL)
        seconds = wait_for_workers(served, but=worker)
        time.sleep(1)
    record("server process killed: retrying clients", patient, **{"back in s": round(seconds, 1)})
    assert patient.answered == patient.sent > 0
    again = read_state(served.project)
    assert again is not None
    assert again.pid != state.pid
    # the logs of the run that died are kept
    assert list((served.project.run / "earlier").iterdir())
    assert served.marina("predict", NAME, "change company address").returncode == 0


def test_malformed_requests_kill_no_worker(served: Server, record: Record) -> None:
    workers, counts, generator = served.worker_pids(NAME), Counts(), random.Random(7)
    pieces = [
        b'{"inputs":',
        b'"text"',
        b"[",
        b"]",
        b"{",
        b"}",
        b"\x00",
        b"\xff\xfe",
        b'"\\ud800"',
        b"null",
        b"1e999",
        b",",
    ]
    client = Connection(served, NAME)
    for _ in range(MALFORMED):
        counts.outcomes[client.ask(b"".join(generator.choices(pieces, k=generator.randint(0, 8))))] += 1
    client.close()
    record(f"{MALFORMED} malformed requests", counts)
    assert set(counts.outcomes) <= {"200", "400"}
    assert counts.outcomes["400"] > MALFORMED * 0.9
    assert served.worker_pids(NAME) == workers
