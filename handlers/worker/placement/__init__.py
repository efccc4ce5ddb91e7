"""Places a worker on its core group, before the engine's runtime is loaded.

NeuronCores belong to one process, so there a group is leased for the worker alone; CPU cores may be
shared by models. Sources for the variables: the Neuron runtime's configuration guide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import PlacementError
from handlers.worker.placement.discovery import VISIBLE_CORES, allowed_cores, cpu_cores, neuron_cores
from handlers.worker.placement.groups import Group, format_cores, parse_core_groups, possible_groups
from handlers.worker.placement.leases import Lease, leases_folder, take_lease

GROUP_SIZES = "NEURONCORE_GROUP_SIZES"
# The first loses to VISIBLE_CORES and must not stand beside it; the second is no longer the runtime's.
REMOVED_VARIABLES = ("NEURON_RT_NUM_CORES", GROUP_SIZES)
TAG_LIMIT = 255  # characters of NEURON_PROCESS_TAG
WAIT_S = 30.0  # for cores that another worker holds


class Placement(NamedTuple):
    """Where a worker computes.

    cores are numbered as the host numbers them; under a quota of CPU time they stand for their number alone.
    threads is how many CPU threads it may keep busy.
    lease is None where the worker has every core and no group was asked for.
    """

    cores: Group
    threads: int
    lease: Lease | None


def core_groups(asked: str | None) -> tuple[int, ...] | None:
    """The sizes of a model's core groups: NEURONCORE_GROUP_SIZES in the environment, else the archive's own.

    Args:
        asked: as the archive has it; None where it leaves that open.

    Raises:
        PlacementError: they cannot be read.
    """
    given = os.environ.get(GROUP_SIZES, "").strip()
    try:
        return parse_core_groups(given or asked) if given or asked else None  # type: ignore[arg-type]
    except ValueError as error:
        raise PlacementError(GROUP_SIZES if given else "core_groups", str(error), ": ") from None


class Cores(NamedTuple):
    """A kind of cores.

    Attributes:
        name: for people.
        leases: the folder of its leases.
        exclusive: whether a core belongs to one process, until that ends.
        usable: those that this process may use; PlacementError where there are none.
        place: takes a group for a model: of these sizes, or where they are None of the kind's own, waiting so many
            seconds for cores that others hold.
    """

    name: str
    leases: str
    exclusive: bool
    usable: Callable[[], Group]
    place: Callable[[tuple[int, ...] | None, str, float], Placement]


def place(cores: Cores, asked: str | None, model: str, wait_s: float = WAIT_S) -> Placement:
    """Take a core group for this process, and make it the one that its runtime will see.

    Args:
        cores: the kind that the engine computes on.
        asked: core groups as the archive has them.
        model: the model's name.
        wait_s: how long to wait for cores that others hold.

    Raises:
        PlacementError: there is no such group, or others hold all of them.
    """
    return cores.place(core_groups(asked), model, wait_s)


def _place_on_neuron(sizes: tuple[int, ...] | None, model: str, wait_s: float) -> Placement:
    cores, sizes = neuron_cores(), sizes or (1,)
    lease = take_lease(leases_folder(NEURONCORES.leases), _groups(cores, sizes[0]), model, shared=False, wait_s=wait_s)
    for name in REMOVED_VARIABLES:
        os.environ.pop(name, None)
    os.environ[VISIBLE_CORES] = format_cores(lease.cores)
    os.environ["NEURON_PROCESS_TAG"] = f"{model}-nc{format_cores(lease.cores)}"[:TAG_LIMIT]
    # every worker gets its share of the host's CPU
    threads = max(1, len(cpu_cores()) * sizes[0] // len(cores))
    return Placement(lease.cores, threads, lease)


def _place_on_cpu(sizes: tuple[int, ...] | None, model: str, _: float) -> Placement:
    cores = cpu_cores()
    if sizes is None:
        return Placement(cores, len(cores), None)
    # side by side among those allowed, whatever their numbers
    groups = [tuple(cores[place] for place in group) for group in _groups(tuple(range(len(cores))), sizes[0])]
    lease = take_lease(leases_folder(CPU_CORES.leases), groups, model, shared=True, wait_s=0)
    if len(cores) < len(allowed_cores()):
        # a quota leaves open which cores, and containers that each take the first would crowd there
        return Placement(lease.cores, sizes[0], lease)
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), lease.cores)
    return Placement(lease.cores, sizes[0], lease)


def _groups(cores: Group, size: int) -> list[Group]:
    groups = possible_groups(cores, size)
    if not groups:
        raise PlacementError(
            f"a core group of {size} is asked for, but only {len(cores)} cores can be used here; "
            f"ask for smaller core_groups, or set {GROUP_SIZES}"
        )
    return groups


def group_cores(asked: str | None) -> int:
    """How many CPU cores one worker computes on: its group's size, or all that it may keep busy."""
    sizes = core_groups(asked)
    return sizes[0] if sizes else len(cpu_cores())


CPU_CORES = Cores("CPU cores", "cpu", False, cpu_cores, _place_on_cpu)
NEURONCORES = Cores("NeuronCores", "neuron", True, neuron_cores, _place_on_neuron)
