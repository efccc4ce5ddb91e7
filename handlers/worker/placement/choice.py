"""Chooses the core group that a worker takes, given the groups that other workers hold."""

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
        preferred: the sizes in the model's archive; its workers take groups of these sizes first.
        for_server: whether the groups are for all models of a server, and not for one model.
        source: where the sizes come from.
    """

    sizes: tuple[int, ...] | None
    preferred: tuple[int, ...] = ()
    for_server: bool = False
    source: str = "core_groups"

    def __str__(self) -> str:
        return f"{self.source}={','.join(map(str, self.sizes))}" if self.sizes else "no core groups"


def worker_of(model: str, version: str = "") -> Holder:
    """This process, as a worker without cores; its parent process is the server."""
    return Holder((), model, os.getpid(), version, server_of(os.getppid()))


def server_of(pid: int) -> str:
    """Identifies a process on this host: containers that share cores may have processes with the same id."""
    try:
        namespace = Path("/proc/self/ns/pid").readlink()
        start_time = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return str(pid)
    return f"{namespace} {pid} {start_time}"


class ExclusiveGroup(NamedTuple):
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
        """A group that no worker holds, such that the other remaining groups find a place too."""
        peers = [holder for holder in holders if self._is_peer(holder)]
        sizes_left = remaining_sizes(self.sizes.sizes, peers)
        wanted_sizes = [size for size in sizes_left if size in self.sizes.preferred] or sizes_left[:1]

        def find(present: Sequence[Holder]) -> Group | None:
            held_cores = {core for holder in present for core in holder.cores}
            layout = lay_out(sizes_left, set(self.cores) - held_cores)
            return next((group for group in layout if group and len(group) in wanted_sizes), None)

        if group := find(holders):
            return group
        if group := find(peers):
            return NoGroup(self._wait_reason(len(group), holders), self.wait_s)
        return NoGroup(self._surplus_reason(holders, peers), SURPLUS_WAIT_S if self.wait_s else 0.0)

    def _is_peer(self, holder: Holder) -> bool:
        """Whether a worker takes its group from the same groups as this worker."""
        shares_server = self.sizes.for_server and holder.server == self.worker.server
        return shares_server or _serve_same_model(holder, self.worker)

    def _wait_reason(self, size: int, holders: Sequence[Holder]) -> str:
        holder_names = ", ".join(str(holder) for holder in holders if set(self.cores) & set(holder.cores))
        return (
            f"no group of {f'{size} contiguous cores' if size > 1 else 'one core'} became free within "
            f"{self.wait_s:.0f} s; held are {holder_names}; unregister one of these models, give it fewer workers, "
            "or use fewer or smaller core_groups"
        )

    def _surplus_reason(self, holders: Sequence[Holder], peers: Sequence[Holder]) -> str:
        model, version = self.worker.model, self.worker.version
        workers = sum(_serve_same_model(holder, self.worker) for holder in peers)
        holder_names = ", ".join(str(holder) for holder in peers)
        path = f"/models/{model}/{version}?min_worker={workers}&max_worker={workers}"
        fix = f"scale it to {workers} workers: marina scale {model} {workers}, or PUT {path}"
        return (
            f"{NO_GROUP_LEFT}: {self.sizes} on {len(self.cores)} cores ({format_cores(self.cores)}), held are "
            f"{holder_names or 'none'}; {fix if workers else 'scale other models down, or unregister this one'}"
        )


class SharedGroup(NamedTuple):
    """A group of cores that workers of several models may share.

    A worker takes the group that its model's workers use least, and of several such groups the group that all workers
    use least.

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
        peers = [holder for holder in holders if _serve_same_model(holder, self.worker)]
        holder_counts = Counter(core for holder in holders for core in holder.cores)
        model_counts = Counter(core for holder in holders if holder.model == self.worker.model for core in holder.cores)
        size = (remaining_sizes(self.sizes, peers) or self.sizes)[0]
        # contiguous among the allowed cores, whatever their numbers
        groups = [
            tuple(self.cores[index] for index in indices) for indices in possible_groups(range(len(self.cores)), size)
        ]
        return min(
            groups,
            key=lambda group: (sum(model_counts[core] for core in group), sum(holder_counts[core] for core in group)),
        )


def _serve_same_model(worker: Holder, other: Holder) -> bool:
    """Whether two workers serve the same version of a model on the same server."""
    return (worker.server, worker.model, worker.version) == (other.server, other.model, other.version)


def remaining_sizes(sizes: tuple[int, ...] | None, holders: Sequence[Holder]) -> list[int]:
    """The sizes of the groups that none of these workers holds, in the order of `sizes`."""
    if sizes is None:
        return [1]
    sizes_left = list(sizes)
    for holder in holders:
        if len(holder.cores) in sizes_left:
            sizes_left.remove(len(holder.cores))
    return sizes_left
