"""Places a worker on its core group, before the engine's runtime is loaded.

Enters: a group of cores as a spec writes it. Leaves: the cores that this process has. Not known here: models.

NeuronCores belong to one process, so a group of them is leased to one worker exclusively. CPU cores may be
shared by several models. Source for the environment variables: the Neuron runtime's configuration guide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import PlacementError
from handlers.worker.placement.choice import ExclusiveGroup, GroupSizes, SharedGroup, worker_of
from handlers.worker.placement.discovery import VISIBLE_CORES, allowed_cores, cpu_cores, neuron_cores
from handlers.worker.placement.groups import Group, format_cores, parse_core_groups
from handlers.worker.placement.leases import Holder, leases_folder, take_lease

GROUP_SIZES = "NEURONCORE_GROUP_SIZES"
PLACEMENT_VARIABLES = (GROUP_SIZES, VISIBLE_CORES)  # they decide which cores a server's workers may take
# VISIBLE_CORES overrides the first, and both must not be set; the runtime no longer reads the second.
REMOVED_VARIABLES = ("NEURON_RT_NUM_CORES", GROUP_SIZES)
TAG_LIMIT = 255  # maximum characters of NEURON_PROCESS_TAG
WAIT_S = 30.0  # for cores that another worker holds


class Placement(NamedTuple):
    """Where a worker computes.

    cores use the host's numbering. Under a quota of CPU time only the number of cores matters, not which ones.
    threads is the number of CPU threads that the worker may keep busy.
    """

    cores: Group
    threads: int


def core_groups(setting: str | None) -> GroupSizes:
    """The core groups of a worker: from NEURONCORE_GROUP_SIZES in the environment, else from the archive.

    AWS's variable lists the groups of all models together: the first model that loads takes the first group. So it
    lists the groups of a server here, from which the workers of all its models take theirs.

    Args:
        setting: `core_groups` in the archive; None if it has none.

    Raises:
        PlacementError: the sizes cannot be parsed.
    """
    server_sizes = server_groups()
    try:
        archive_sizes = parse_core_groups(setting) if setting else None
    except ValueError as error:
        raise PlacementError("core_groups", str(error), ": ") from None
    return (
        GroupSizes(server_sizes, archive_sizes or (1,), for_server=True, source=GROUP_SIZES)
        if server_sizes
        else GroupSizes(archive_sizes, archive_sizes or (1,))
    )


def server_groups() -> tuple[int, ...] | None:
    """The sizes in NEURONCORE_GROUP_SIZES; None if it is not set. PlacementError if they cannot be parsed."""
    setting = os.environ.get(GROUP_SIZES, "").strip()
    try:
        return parse_core_groups(setting) if setting else None
    except ValueError as error:
        raise PlacementError(GROUP_SIZES, str(error), ": ") from None


class Cores(NamedTuple):
    """A kind of cores.

    Attributes:
        name: the name shown to people.
        leases: the folder of its leases.
        exclusive: whether a core belongs to one process until that process ends.
        usable: returns the cores that this process may use; raises PlacementError if there are none.
        place: takes a group for a worker. Its arguments are the sizes of the groups, the worker, and the seconds to
            wait for cores that others hold.
    """

    name: str
    leases: str
    exclusive: bool
    usable: Callable[[], Group]
    place: Callable[[GroupSizes, Holder, float], Placement]


def place(cores: Cores, setting: str | None, model: str, version: str = "", wait_s: float = WAIT_S) -> Placement:
    """Take a core group for this process, and make it the only one that the process's runtime sees.

    Args:
        cores: the kind of cores that the engine computes on.
        setting: `core_groups` in the archive; None if it has none.
        model: the model's name.
        version: the model's version.
        wait_s: how long to wait for cores that others hold.

    Raises:
        PlacementError: there is no such group, or others hold all of them.
    """
    return cores.place(core_groups(setting), worker_of(model, version), wait_s)


def _place_on_neuron(sizes: GroupSizes, worker: Holder, wait_s: float) -> Placement:
    cores = neuron_cores()
    _check_sizes(cores, sizes.sizes or (1,))
    lease = take_lease(leases_folder(NEURONCORES.leases), worker, ExclusiveGroup(worker, cores, sizes, wait_s).choose)
    for name in REMOVED_VARIABLES:
        os.environ.pop(name, None)
    os.environ[VISIBLE_CORES] = format_cores(lease.cores)
    os.environ["NEURON_PROCESS_TAG"] = f"{worker.model}-nc{format_cores(lease.cores)}"[:TAG_LIMIT]
    # every worker gets its share of the host's CPU cores
    threads = max(1, len(cpu_cores()) * len(lease.cores) // len(cores))
    return Placement(lease.cores, threads)


def _place_on_cpu(sizes: GroupSizes, worker: Holder, _: float) -> Placement:
    cores = cpu_cores()
    if sizes.sizes is None:
        return Placement(cores, len(cores))
    _check_sizes(cores, sizes.sizes)
    lease = take_lease(leases_folder(CPU_CORES.leases), worker, SharedGroup(worker, cores, sizes.sizes).choose)
    if len(cores) < len(allowed_cores()):
        # a quota does not fix which cores; if every container took the first cores, containers would compete there
        return Placement(lease.cores, len(lease.cores))
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(int(task.name), lease.cores)
    return Placement(lease.cores, len(lease.cores))


def _check_sizes(cores: Group, sizes: tuple[int, ...]) -> None:
    if max(sizes) > len(cores):
        raise PlacementError(
            f"a core group of {max(sizes)} is configured, but only {len(cores)} cores can be used here; "
            f"make core_groups smaller, or set {GROUP_SIZES}"
        )


def group_cores(setting: str | None) -> int:
    """The number of CPU cores that one worker computes on: its group's size, or all cores that it may keep busy."""
    sizes = core_groups(setting).sizes
    return sizes[0] if sizes else len(cpu_cores())


CPU_CORES = Cores("CPU cores", "cpu", False, cpu_cores, _place_on_cpu)
NEURONCORES = Cores("NeuronCores", "neuron", True, neuron_cores, _place_on_neuron)
