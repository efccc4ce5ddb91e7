"""Chooses which core group of several a worker takes, given those that other workers hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from handlers.worker.placement.groups import Group, format_cores, lay_out, possible_groups
from handlers.worker.placement.leases import NO_GROUP_LEFT, Holder, NoGroup

SURPLUS_WAIT_S = 3600.0  # TorchServe ends a worker that starts for too long


class GroupSizes(NamedTuple):
    """The sizes of core groups.

    Attributes:
        sizes: one per group; None if there are as many groups of one core as there are workers.
        wanted: the sizes in the model's archive, which its workers take first where there are others.
        together: whether the groups are for all models of a server, and not for one model.
        source: where the sizes come from.
    """

    sizes: tuple[int, ...] | None
    wanted: tuple[int, ...] = ()
    together: bool = False
    source: str = "core_groups"

    def __str__(self) -> str:
        return f"{self.source}={','.join(map(str, self.sizes))}" if self.sizes else "no core groups"


def worker_of(model: str, version: str = "") -> Holder:
    """This process, as a worker without cores; its parent process is the server."""
    return Holder((), model, os.getpid(), version, server_of(os.getppid()))


def server_of(pid: int) -> str:
    """Identifies a process on this host: containers that share cores may have processes with the same id."""
    try:
        space = Path("/proc/self/ns/pid").readlink()
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return str(pid)
    return f"{space} {pid} {started}"


class OwnGroup(NamedTuple):
    """A group for one worker alone, of cores that belong to one process.

    Attributes:
        worker: the worker.
        cores: the cores that may be used.
        sizes: the sizes of the groups.
        wait_s: seconds to wait for cores that another server, model or version holds.
    """

    worker: Holder
    cores: Group
    sizes: GroupSizes
    wait_s: float

    def choose(self, holders: Sequence[Holder]) -> Group | NoGroup:
        """A group that no worker holds, such that the other groups that are left find a place too."""
        mine = [holder for holder in holders if self._shares(holder)]
        left = remaining(self.sizes.sizes, mine)
        held = {core for holder in holders for core in holder.cores}
        if left:
            size = next((size for size in left if size in self.sizes.wanted), left[0])
            group = lay_out(left, set(self.cores) - held)[left.index(size)]
            if group:
                return group
            own = {core for holder in mine for core in holder.cores}
            if lay_out([size], set(self.cores) - own)[0]:
                return NoGroup(self._held_by_others(size, holders), self.wait_s)
        return NoGroup(self._surplus(holders, mine), SURPLUS_WAIT_S if self.wait_s else 0.0)

    def _shares(self, holder: Holder) -> bool:
        """Whether a worker takes its group from the same ones."""
        together = self.sizes.together and holder.server == self.worker.server
        return together or _of_one_model(holder, self.worker)

    def _held_by_others(self, size: int, holders: Sequence[Holder]) -> str:
        who = ", ".join(str(holder) for holder in holders if set(self.cores) & set(holder.cores))
        return (
            f"no group of {f'{size} contiguous cores' if size > 1 else 'one core'} became free within "
            f"{self.wait_s:.0f} s; held are {who}; unregister one of these models, give it fewer workers, or use fewer "
            "or smaller core_groups"
        )

    def _surplus(self, holders: Sequence[Holder], mine: Sequence[Holder]) -> str:
        model, version = self.worker.model, self.worker.version
        workers = sum(_of_one_model(holder, self.worker) for holder in mine)
        who = ", ".join(str(holder) for holder in mine)
        path = f"/models/{model}/{version}?min_worker={workers}&max_worker={workers}"
        fix = f"scale it to {workers} workers: marina scale {model} {workers}, or PUT {path}"
        return (
            f"{NO_GROUP_LEFT}: {self.sizes} on {len(self.cores)} cores ({format_cores(self.cores)}), held are "
            f"{who or 'none'}; {fix if workers else 'scale other models down, or unregister this one'}"
        )


class SharedGroup(NamedTuple):
    """A group of cores that workers of several models may share: the least used one, by the model's own workers first.

    Attributes:
        worker: the worker.
        cores: the cores that may be used.
        sizes: the sizes of the groups.
    """

    worker: Holder
    cores: Group
    sizes: tuple[int, ...]

    def choose(self, holders: Sequence[Holder]) -> Group | NoGroup:
        """A group of a size that the model's other workers do not have, or else of the first size."""
        same = [holder for holder in holders if _of_one_model(holder, self.worker)]
        used = Counter(core for holder in holders for core in holder.cores)
        own = Counter(core for holder in holders if holder.model == self.worker.model for core in holder.cores)
        size = (remaining(self.sizes, same) or self.sizes)[0]
        # contiguous among the allowed cores, whatever their numbers
        groups = [
            tuple(self.cores[place] for place in places) for places in possible_groups(range(len(self.cores)), size)
        ]
        return min(groups, key=lambda group: (sum(own[core] for core in group), sum(used[core] for core in group)))


def _of_one_model(one: Holder, other: Holder) -> bool:
    """Whether two workers serve the same version of a model on the same server."""
    return (one.server, one.model, one.version) == (other.server, other.model, other.version)


def remaining(sizes: tuple[int, ...] | None, holders: Sequence[Holder]) -> list[int]:
    """The sizes of the groups that none of these workers holds, in their order."""
    if sizes is None:
        return [1]
    left = list(sizes)
    for holder in holders:
        if len(holder.cores) in left:
            left.remove(len(holder.cores))
    return left
