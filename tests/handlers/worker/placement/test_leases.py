"""Leases of cores, held by real processes."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handlers.worker.errors import PlacementError
from handlers.worker.placement import leases as module
from handlers.worker.placement.choice import ExclusiveGroup, GroupSizes, SharedGroup, worker_of
from handlers.worker.placement.leases import FOLDER_VARIABLE, Lease, leases_folder, read_holders, take_lease
from tests.conftest import ROOT

HOLD = """
import sys
import time
from pathlib import Path
from tests.handlers.worker.placement.test_leases import take
lease = take(Path(sys.argv[1]), "m", int(sys.argv[2]), int(sys.argv[3]), 60)
print(*lease.cores, flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "leases" / "neuron"


def take(folder: Path, model: str, cores: int = 4, size: int = 1, wait_s: float = 0) -> Lease:
    """A lease on one of as many groups of a size as there can be."""
    sizes = GroupSizes((size,) * 64)
    worker = worker_of(model)
    return take_lease(folder, worker, ExclusiveGroup(worker, tuple(range(cores)), sizes, wait_s).choose)


def hold(folder: Path, cores: int, size: int) -> subprocess.Popen[str]:
    """A process that takes a lease and keeps it."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(cores), str(size)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def cores_of(process: subprocess.Popen[str]) -> tuple[int, ...]:
    assert process.stdout is not None
    return tuple(int(core) for core in process.stdout.readline().split())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_each_holder_has_cores_of_its_own(folder: Path) -> None:
    leases = [take(folder, f"m{number}") for number in range(4)]
    assert [lease.cores for lease in leases] == [(0,), (1,), (2,), (3,)]
    expected = {worker_of(f"m{number}")._replace(cores=(number,)) for number in range(4)}
    assert set(read_holders(folder)) == expected
    leases[2].release()
    assert take(folder, "again").cores == (2,)


def test_a_wait_in_vain_ends_with_who_holds_what(folder: Path) -> None:
    held = [take(folder, "search") for _ in range(4)]
    message = rf"no group of 2 contiguous cores became free .* held are .*0 by search \(pid {os.getpid()}\)"
    with pytest.raises(PlacementError, match=message):
        take(folder, "intent", size=2, wait_s=0.2)
    assert len(held) == 4


def test_groups_of_different_sizes_never_overlap(folder: Path) -> None:
    first = take(folder, "m")
    pair = take(folder, "m", size=2)
    last = take(folder, "m")
    assert (first.cores, pair.cores, last.cores) == ((0,), (1, 2), (3,))


def test_a_killed_holders_cores_are_free_at_once(folder: Path) -> None:
    process = hold(folder, 1, 1)
    assert cores_of(process) == (0,)
    end(process)
    assert take(folder, "next", cores=1).cores == (0,)
    assert len(list(folder.glob("*.lease"))) == 1


def test_whoever_comes_waits_for_a_holder_that_ends(folder: Path) -> None:
    process = hold(folder, 1, 1)
    assert cores_of(process) == (0,)
    waiting = hold(folder, 1, 1)
    time.sleep(0.5)
    end(process)
    assert cores_of(waiting) == (0,)
    end(waiting)


def test_no_core_is_ever_held_twice(folder: Path) -> None:
    """Twelve processes for four cores, killed at random."""
    chosen = random.Random(0)
    processes = [hold(folder, 4, chosen.choice((1, 2))) for _ in range(12)]
    try:
        for _ in range(12):
            deadline = time.monotonic() + 60
            while not read_holders(folder):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            holders = read_holders(folder)
            held = [core for holder in holders for core in holder.cores]
            assert len(held) == len(set(held)) <= 4
            victim = chosen.choice(holders).pid
            os.kill(victim, signal.SIGKILL)
            next(process for process in processes if process.pid == victim).wait()
    finally:
        for process in processes:
            end(process)


def test_shared_groups_are_given_to_the_least_used_and_apart_within_a_model(folder: Path) -> None:
    def share(model: str) -> tuple[int, ...]:
        worker = worker_of(model)
        kept.append(take_lease(folder, worker, SharedGroup(worker, (0, 1, 2, 3), (2, 2)).choose))
        return kept[-1].cores

    kept: list[Lease] = []
    assert [share("a"), share("b"), share("c")] == [(0, 1), (2, 3), (0, 1)]
    # b's second goes away from its first although all are used alike
    assert share("c") == (2, 3)
    assert share("b") == (0, 1)
    kept[0].release()
    assert share("a") in {(0, 1), (2, 3)}


def test_the_folder_is_one_for_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert leases_folder("cpu") == Path("/var/tmp/marina-leases/cpu")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert leases_folder("cpu") == tmp_path / "cpu"


def test_other_users_may_write_to_it(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        lease = take(folder, "m")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}
    lease.release()
    assert [path.stat().st_mode & 0o7777 for path in (folder, folder.parent)] == [0o1777, 0o1777]


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("")
    with pytest.raises(PlacementError, match="is not a folder; remove it"):
        take(tmp_path / "leases" / "neuron", "m")


def test_a_stopped_holder_of_the_mutex_is_named_after_a_while(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(folder, "m").release()
    lock = f"f = open({str(folder / 'mutex')!r}); fcntl.flock(f, fcntl.LOCK_EX)"
    code = f"import fcntl, time; {lock}; print(flush=True); time.sleep(600)"
    monkeypatch.setattr(module, "MUTEX_WAIT_S", 0.3)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(PlacementError, match=rf"mutex has been locked for 0 s by the process {process.pid}; end"):
            take(folder, "m")
        process.kill()
    assert take(folder, "m").cores == (0,)


@pytest.mark.parametrize("content", [b"", b"no json", b"[1]", b'{"cores": ["a"], "model": "m", "pid": 1}'])
def test_a_locked_file_that_is_no_lease_is_reported_and_ignored(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    take(folder, "m").release()
    path = folder / "strange.lease"
    path.write_bytes(content)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert take(folder, "m").cores == (0,)
    assert f"{path} is locked, but is not a lease; remove it" in caplog.text
