"""Leases: which cores of this host are whose, over all models and servers on it.

A lease is a file in a folder that the whole host shares. Its holder keeps it locked (flock), so the
kernel drops the lease when the process ends, however it ends; the file says which cores and who.
A file that nobody has locked is what a process left behind, and is removed. Leases are given out
under one lock, so that no two can be given the same cores.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import PlacementError
from handlers.worker.placement.groups import Group, format_cores

# Shared by all processes of a host or container. Not in /dev/shm, from where systemd-logind removes
# what belongs to a user who logs out. From here systemd-tmpfiles removes what is old, but not out of a
# folder that somebody has locked (tmpfiles.d), as every holder has.
FOLDER = "/var/tmp/marina-leases"
FOLDER_VARIABLE = "MARINA_LEASES"
MUTEX = "mutex"
WAITS_S = (0.05, 1.0)  # between two tries: the first, and the longest


class Holder(NamedTuple):
    """Who holds which cores."""

    cores: Group
    model: str
    pid: int

    def __str__(self) -> str:
        return f"{format_cores(self.cores)} by {self.model} (pid {self.pid})"


class Lease:
    """A hold on a group of cores. It ends with the process, or when it is released."""

    def __init__(self, cores: Group, path: Path, descriptors: Sequence[int]) -> None:
        self.cores = cores
        self._path = path
        self._descriptors = descriptors

    def release(self) -> None:
        """Give the cores back."""
        self._path.unlink(missing_ok=True)
        for descriptor in self._descriptors:
            os.close(descriptor)


def leases_folder(kind: str) -> Path:
    """The folder of the leases of a kind of cores, "neuron" or "cpu"; MARINA_LEASES moves it."""
    return Path(os.environ.get(FOLDER_VARIABLE) or FOLDER) / kind


def take_lease(folder: Path, groups: Sequence[Group], model: str, shared: bool, wait_s: float) -> Lease:
    """Take one of several groups of cores.

    Args:
        folder: from `leases_folder`.
        groups: the best first.
        model: who asks.
        shared: whether others may hold the same cores. Then the group is the one that is used
            least, by the model's own workers in the first place.
        wait_s: how long to wait for a group to become free: a worker that was killed takes a moment
            to end.

    Raises:
        PlacementError: none became free; says who holds what.
    """
    deadline = time.monotonic() + wait_s
    pause = WAITS_S[0]
    while True:
        with _one_at_a_time(folder):
            holders = _holders(folder)
            group = _choose(groups, holders, model, shared)
            if group:
                return _write(folder, Holder(group, model, os.getpid()))
        if time.monotonic() > deadline:
            raise PlacementError(_explain(groups, holders, wait_s))
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, WAITS_S[1])


def read_holders(folder: Path) -> list[Holder]:
    """Who holds cores now."""
    if not folder.is_dir():
        return []
    with _one_at_a_time(folder):
        return _holders(folder)


def _choose(groups: Sequence[Group], holders: Sequence[Holder], model: str, shared: bool) -> Group | None:
    used = Counter(core for holder in holders for core in holder.cores)
    own = Counter(core for holder in holders if holder.model == model for core in holder.cores)
    if shared:
        return min(groups, key=lambda group: (sum(own[core] for core in group), sum(used[core] for core in group)))
    return next((group for group in groups if not any(used[core] for core in group)), None)


def _holders(folder: Path) -> list[Holder]:
    """Who holds a lease; what the dead left is removed."""
    found = []
    for path in sorted(folder.glob("*.lease")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except PermissionError:
            raise PlacementError(
                f"{path} cannot be read, so it is not known who holds which cores; chmod a+r it"
            ) from None
        except OSError:  # a link, or a file that went meanwhile
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            fields = json.loads(os.read(descriptor, 1 << 16))
            found.append(Holder(tuple(fields["cores"]), fields["model"], fields["pid"]))
        else:
            with suppress(PermissionError):  # another user's; it counts for nothing all the same
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return found


def _write(folder: Path, holder: Holder) -> Lease:
    path = folder / f"{uuid.uuid4().hex}.lease"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    os.fchmod(descriptor, 0o644)  # whatever the umask is
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(holder._asdict()).encode())
    locked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(locked, fcntl.LOCK_SH)
    return Lease(holder.cores, path, (descriptor, locked))


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the lock under which leases are given out, for every user of the host."""
    _make_shared(folder.parent)
    _make_shared(folder)
    path = folder / MUTEX
    with suppress(FileExistsError):
        made = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(made, 0o644)
        os.close(made)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_shared(folder: Path) -> None:
    """Make a folder in which every user may write, as in /tmp."""
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


def _explain(groups: Sequence[Group], holders: Sequence[Holder], waited_s: float) -> str:
    wanted = {core for group in groups for core in group}
    who = ", ".join(str(holder) for holder in holders if wanted & set(holder.cores))
    size = f"{len(groups[0])} contiguous cores" if len(groups[0]) > 1 else "one core"
    return (
        f"no group of {size} became free within {waited_s:.0f} s; held are {who}; unregister one of these models, "
        "give it fewer workers, or ask for fewer or smaller core_groups"
    )
