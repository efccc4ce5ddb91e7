"""What a pod or a task needs that serves archives from an image of `marina deploy image`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marina.archive.describe import JAVA_BYTES, Archive
from marina.deploy.scale import Scale

# nginx, the process that starts all, and what TorchServe needs for requests
OTHERS_BYTES = 200_000_000
# graphs run in memory of their own, which grows with the requests: as measured, see docs/deploy/kubernetes.md
REQUEST, LIMIT = 1.3, 2.0
DRAIN_S = 25
MARGIN_S = 15


class Needs(NamedTuple):
    """Cores, memory in bytes, and seconds.

    Attributes:
        cpus: CPU cores.
        neuron_cores: NeuronCores; 0 on the stack cpu.
        memory_request, memory_limit: what it usually needs, and the most that it may take.
        startup_s: how long workers may take to become READY.
        stop_s: how long it may take to end: the drain, the longest batch, and a margin.
    """

    cpus: int
    neuron_cores: int
    memory_request: float
    memory_limit: float
    startup_s: int
    stop_s: int


def needs_of(archives: Sequence[Archive], stack: str, cpus: int, scale: Scale | None = None) -> Needs:
    """What archives need that share a pod.

    Args:
        archives: those that share it.
        stack: of all of them.
        cpus: CPU cores for archives on the stack cpu without core groups.
        scale: a plan, which knows how many cores they share.
    """
    cores = scale.cores if scale else sum(sum(archive.groups) for archive in archives)
    memory = JAVA_BYTES + OTHERS_BYTES + sum(archive.memory for archive in archives)
    on_cpu = stack == "cpu"
    return Needs(
        cpus=(cores or cpus) if on_cpu else sum(archive.workers for archive in archives) + 1,
        neuron_cores=0 if on_cpu else cores or len(archives),
        memory_request=memory * REQUEST,
        memory_limit=memory * LIMIT,
        startup_s=max(int(archive.config["startupTimeout"]) for archive in archives),
        stop_s=DRAIN_S + MARGIN_S + max(int(archive.config["responseTimeout"]) for archive in archives),
    )
