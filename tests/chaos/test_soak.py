"""Everything at once for a while: MARINA_TEST_SOAK=3600 for an hour."""

from __future__ import annotations

import os
import time

import psutil

from marina.server.state import read_state
from tests.chaos.conftest import NAME, Record, change
from tests.chaos.load import body_of, plain_clients, retrying_clients, send_and_hang_up
from tests.end_to_end.conftest import Server

SECONDS = float(os.environ.get("MARINA_TEST_SOAK", "20"))
UPGRADE_EVERY_S = 60


def memory_mb(served: Server) -> dict[str, int]:
    """Resident megabytes of Java and of the worker."""
    state = read_state(served.project)
    assert state is not None
    pids = {"Java MB": state.pid, "worker MB": served.worker_pids(NAME)[0]}
    return {name: psutil.Process(pid).memory_info().rss // 1_000_000 for name, pid in pids.items()}


def test_a_soak(served: Server, record: Record) -> None:
    before, begun, upgrades = memory_mb(served), time.monotonic(), 0
    large = body_of(*["change company address " * 30] * 32)
    with (
        retrying_clients(served, NAME, 6) as patient,
        plain_clients(served, NAME, 2, large, pause_s=1) as costly,
        plain_clients(served, NAME, 1, b'{"inputs": 5}', pause_s=0.05) as wrong,
    ):
        while time.monotonic() - begun < SECONDS:
            time.sleep(min(5, SECONDS / 4))
            send_and_hang_up(served, NAME, 10, large)
            if time.monotonic() - begun > (upgrades + 1) * UPGRADE_EVERY_S:
                upgrades += 1
                change(served.project, max_instances=100 + upgrades % 2)
                assert served.marina("upgrade", NAME).returncode == 0
    minutes = round((time.monotonic() - begun) / 60, 1)
    after = {f"{name} at the end": value for name, value in memory_mb(served).items()}
    record("soak: retrying clients", patient, minutes=minutes, upgrades=upgrades, **before, **after)
    record("soak: costly requests", costly)
    record("soak: malformed requests", wrong)
    assert patient.answered == patient.sent > 0
    assert set(costly.outcomes) <= {"200", "503"}
    assert set(wrong.outcomes) <= {"400", "503"}
