"""Everything at once for a while: MARINA_TEST_SOAK=3600 for an hour."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from marina.project import Project
from marina.server.run.state import read_state
from tests.chaos.conftest import NAME, Record, archive_of, change
from tests.chaos.load import Counts, body_of, plain_clients, retrying_clients, send_and_hang_up
from tests.chaos.memory import Memory, sampled
from tests.end_to_end.conftest import Server, serving

SECONDS = float(os.environ.get("MARINA_TEST_SOAK", "20"))
UPGRADE_EVERY_S = 60
# what a worker may grow by in the second half of its samples: allocators keep freed memory for later
GROWTH_MB = 10
# each batch keeps 200 kB
LEAK = """
from handlers.worker.answering.model import Model as _Model
_reply, _kept = _Model.reply, []
def _leaking_reply(self, *arguments, **options):
    _kept.append(b"x" * 200_000)
    return _reply(self, *arguments, **options)
_Model.reply = _leaking_reply
"""


def server_mb(served: Server) -> int:
    """Resident megabytes of the server, without its workers."""
    state = read_state(served.project)
    assert state is not None
    return int(psutil.Process(state.pid).memory_info().rss // 1_000_000)


def workers(served: Server) -> list[int]:
    """The worker's process; none in a moment in which it is exchanged."""
    try:
        return served.worker_pids(NAME)
    except (requests.RequestException, KeyError, IndexError):
        return []


def soak(served: Server, record: Record, what: str) -> tuple[Memory, Counts]:
    """Send requests of every kind, and upgrade now and then.

    Returns:
        The memory of the workers, and what patient clients got.
    """
    before, begun, upgrades = server_mb(served), time.monotonic(), 0
    large = body_of(*["change company address " * 30] * 32)
    with (
        sampled(lambda: workers(served)) as memory,
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
    figures = {
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "upgrades": upgrades,
        "server MB": f"{before} to {server_mb(served)}",
        "worker MB": round(max(max(samples) for samples in memory.samples.values())),
        "its growth MB": round(memory.growth_mb(), 1),
    }
    record(f"{what}: retrying clients", patient, **figures)
    record(f"{what}: costly requests", costly)
    record(f"{what}: malformed requests", wrong)
    assert set(costly.outcomes) <= {"200", "503"}
    assert set(wrong.outcomes) <= {"400", "503"}
    return memory, patient


def test_a_soak(served: Server, record: Record) -> None:
    memory, patient = soak(served, record, "soak")
    assert patient.answered == patient.sent > 0
    assert memory.growth_mb() < GROWTH_MB


@pytest.fixture
def leaking(original: Project, tmp_path: Path) -> Iterator[Server]:
    """A server of the same model, whose handler keeps memory of each batch."""
    project = Project(tmp_path / "project")
    shutil.copytree(original.root, project.root)
    with zipfile.ZipFile(archive_of(original)) as old, zipfile.ZipFile(archive_of(project), "w") as new:
        for entry in old.infolist():
            text = LEAK if entry.filename == "text_classification.py" else ""
            new.writestr(entry, old.read(entry) + text.encode())
    with serving(project, NAME) as server:
        yield server


@pytest.mark.torchserve  # it is the entry file of the archive that leaks, which no other host runs
def test_a_soak_shows_a_handler_that_leaks(leaking: Server, record: Record) -> None:
    memory, patient = soak(leaking, record, "soak of a leak")
    assert patient.answered == patient.sent > 0
    assert memory.growth_mb() > 2 * GROWTH_MB
