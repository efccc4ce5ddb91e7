"""Leases record which process holds which cores of this host, across all models and servers on it.

A lease is a file in a folder that the whole host shares. Its holder keeps the file locked (flock), so the
kernel releases the lease when the process ends, however it ends. The file contains the cores and the holder.
An unlocked file was left behind by a process that ended, and is removed. Leases are granted
under one lock, so that no two can be given the same cores.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import PlacementError
from handlers.worker.placement.groups import Group, format_cores

# Shared by all processes of a host or container. Not in /dev/shm, because systemd-logind removes a user's files
# there at logout. systemd-tmpfiles removes old files from here, but not from a folder that is locked
# (tmpfiles.d), and every holder locks this one.
FOLDER = "/var/tmp/marina-leases"
FOLDER_VARIABLE = "MARINA_LEASES"
MUTEX = "mutex"
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 1.0  # between two attempts
NO_GROUP_LEFT = "no core group is left for this worker"  # `marina serve` looks for it in the log
LOG_AFTER_S = 5.0  # a longer wait is logged
MUTEX_WAIT_S = 15.0  # workers hold it for milliseconds
_log = logging.getLogger(__name__)


class Holder(NamedTuple):
    """A process and the cores that it holds.

    server identifies its server, see `server_of`, and version is the model's, so that the workers of one model can be
    counted.
    """

    cores: Group
    model: str
    pid: int
    version: str = ""
    server: str = ""

    def __str__(self) -> str:
        return f"{format_cores(self.cores)} by {self.model} (pid {self.pid})"


class Lease:
    """A hold on a group of cores. It ends when the process ends or when it is released."""

    def __init__(self, cores: Group, path: Path, descriptors: Sequence[int]) -> None:
        self.cores = cores
        self._path = path
        self._descriptors = descriptors

    def release(self) -> None:
        """Release the cores."""
        self._path.unlink(missing_ok=True)
        for descriptor in self._descriptors:
            os.close(descriptor)


def leases_folder(kind: str) -> Path:
    """The folder of the leases for a kind of cores, "neuron" or "cpu"; MARINA_LEASES overrides its location."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER) / kind


class NoGroup(NamedTuple):
    """Why there is no group for a worker at this time, and for how many seconds to wait for one."""

    reason: str
    wait_s: float


def take_lease(folder: Path, worker: Holder, choose: Callable[[Sequence[Holder]], Group | NoGroup]) -> Lease:
    """Take a group of cores, as soon as there is one: a worker that was killed takes a moment to end.

    Args:
        folder: from `leases_folder`.
        worker: the worker, without cores.
        choose: the cores to take, given the cores that others hold; or the reason why there are none. If the wait is
            long, its reason is logged once.

    Raises:
        PlacementError: no group became free in the time that the reason allows.
    """
    start = time.monotonic()
    pause, logged = FIRST_PAUSE_S, False
    while True:
        with _mutex(folder):
            choice = choose(_read_holders(folder))
            if not isinstance(choice, NoGroup):
                return _write_lease(folder, worker._replace(cores=choice))
        waited = time.monotonic() - start
        if waited >= choice.wait_s:
            raise PlacementError(choice.reason)
        if waited >= LOG_AFTER_S and not logged:
            _log.warning("%s: %s", worker.model, choice.reason)
            logged = True
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, MAX_PAUSE_S)


def read_holders(folder: Path) -> list[Holder]:
    """The current holders of cores."""
    if not folder.is_dir():
        return []
    with _mutex(folder):
        return _read_holders(folder)


def _read_holders(folder: Path) -> list[Holder]:
    """The current holders of leases; removes files of processes that have ended."""
    holders = []
    for path in sorted(folder.glob("*.lease")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except PermissionError:
            raise PlacementError(
                f"{path} cannot be read, so it is not known who holds which cores; chmod a+r it"
            ) from None
        except OSError:  # a link, or a file that was removed in the meantime
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_lease(descriptor)
            if holder is None:
                _log.warning("%s is locked, but is not a lease; remove it", path)
            else:
                holders.append(holder)
        else:
            with suppress(PermissionError):  # another user's file; it does not count as held either way
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return holders


def _read_lease(descriptor: int) -> Holder | None:
    """The holder in a lease file; None if the file has none: it is being written, or is no lease."""
    try:
        fields = json.loads(os.read(descriptor, 1 << 16))
        cores = tuple(int(core) for core in fields["cores"])
        version, server = str(fields.get("version", "")), str(fields.get("server", ""))  # unknown to older releases
        return Holder(cores, str(fields["model"]), int(fields["pid"]), version, server)
    except (ValueError, KeyError, TypeError):
        return None


def _write_lease(folder: Path, holder: Holder) -> Lease:
    path = folder / f"{uuid.uuid4().hex}.lease"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    os.fchmod(descriptor, 0o644)  # regardless of the umask
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(holder._asdict()).encode())
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder_descriptor, fcntl.LOCK_SH)
    return Lease(holder.cores, path, (descriptor, folder_descriptor))


@contextmanager
def _mutex(folder: Path) -> Iterator[None]:
    """Hold the lock under which leases are granted; it works across all users of the host."""
    _make_shared(folder.parent)
    _make_shared(folder)
    path = folder / MUTEX
    with suppress(FileExistsError):
        created = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(created, 0o644)
        os.close(created)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    """Lock the mutex; PlacementError names the process that holds it for too long, perhaps because it is stopped."""
    deadline = time.monotonic() + MUTEX_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PlacementError(
                    f"{path} has been locked for {MUTEX_WAIT_S:.0f} s by {_locked_by(descriptor)}; end that process"
                ) from None
        time.sleep(FIRST_PAUSE_S)


def _locked_by(descriptor: int) -> str:
    """The process that holds a lock on a file, from /proc/locks."""
    inode = os.fstat(descriptor).st_ino
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            # 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
            fields = line.split()
            if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                return f"the process {fields[4]}"
    return "another process"


def _make_shared(folder: Path) -> None:
    """Create a folder in which every user may write, like /tmp."""
    try:
        folder.mkdir()
        folder.chmod(0o1777)
    except FileExistsError:
        if folder.is_symlink() or not folder.is_dir():
            raise PlacementError(f"{folder} is not a folder; remove it, or name another in {FOLDER_VARIABLE}") from None
    except OSError as error:
        raise PlacementError(
            f"{folder} cannot be made ({error.strerror}); name a folder that all servers of this host share in "
            f"{FOLDER_VARIABLE}"
        ) from None
