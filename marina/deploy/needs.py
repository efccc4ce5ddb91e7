"""The host of an image of `marina deploy image`, and the needs of a pod or a task that serves archives from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marina.archive.describe import Archive
from marina.deploy.scale import Scale
from marina.deploy.source import instance_types
from marina.server.hosts.table import HOSTS
from marina.server.run.state import DIRECT, TORCHSERVE

# of the memory of workers that was not measured: graphs run in memory of their own, which grows with the requests
REQUEST_FACTOR, LIMIT_FACTOR = 1.3, 2.0
LIMIT_ROOM = 1.1  # above what was measured
DRAIN_S = 25
MARGIN_S = 15


def default_host(stack: str) -> str:
    """The host of images of a stack: `direct`, which gets fixes; on Neuron TorchServe, with which AWS documents it."""
    return DIRECT if stack == "cpu" else TORCHSERVE


def host_of(host: str | None, scale: Scale | None, default: str) -> str:
    """The host of an image: the named one, else that of the plan, else the default."""
    return host or (scale.host if scale else default)


class Needs(NamedTuple):
    """Cores, memory in bytes, and seconds.

    Attributes:
        cpus: CPU cores; on NeuronCores one for each worker and the host, as far as an instance has them.
        neuron_cores: NeuronCores; 0 on the stack cpu.
        memory_request, memory_limit: the usual memory, and the maximum.
        startup_s: the maximum time until workers are READY.
        stop_s: the maximum time to end: the drain, the longest batch, and a margin.
    """

    cpus: int
    neuron_cores: int
    memory_request: float
    memory_limit: float
    startup_s: int
    stop_s: int


def needs_of(archives: Sequence[Archive], stack: str, cpus: int, scale: Scale | None, host: str) -> Needs:
    """The needs of archives that share a pod.

    Args:
        archives: the archives.
        stack: their stack.
        cpus: CPU cores for archives on the stack cpu without core groups.
        scale: a plan, which has the number of cores that they share.
        host: of the image.
    """
    cores = scale.cores if scale else sum(sum(archive.groups) for archive in archives)
    on_cpu = stack == "cpu"
    worker_cpus = (cores or cpus) if on_cpu else cpus
    neuron_cores = 0 if on_cpu else cores or len(archives)
    request, limit = workers_memory(archives, host, worker_cpus)
    return Needs(
        cpus=worker_cpus if on_cpu else _host_cpus(archives, neuron_cores),
        neuron_cores=neuron_cores,
        memory_request=HOSTS[host].idle_bytes + request,
        memory_limit=HOSTS[host].max_bytes + limit,
        startup_s=max(int(archive.config["startupTimeout"]) for archive in archives),
        stop_s=DRAIN_S + MARGIN_S + max(int(archive.config["responseTimeout"]) for archive in archives),
    )


def _host_cpus(archives: Sequence[Archive], neuron_cores: int) -> int:
    """The CPU cores of archives on NeuronCores: they leave one of the smallest instance that has these NeuronCores."""
    smallest = (instance.vcpu - 1 for instance in instance_types(archives[0], neuron_cores).values())
    return min([sum(archive.workers for archive in archives) + 1, *smallest])


def workers_memory(archives: Sequence[Archive], host: str, cpus: int) -> tuple[float, float]:
    """The bytes that the workers of archives are to be given, and their limit.

    A worker with more cores than the measured one had, `cpus` or those of its group, may take more: it counts as one
    that was not measured.
    """
    request = limit = 0.0
    for archive in archives:
        memory = archive.memory(HOSTS[host].java)
        measured = archive.footprint and archive.footprint.cores >= max(archive.groups, default=cpus)
        request += memory * (1.0 if measured else REQUEST_FACTOR)
        limit += memory * (LIMIT_ROOM if measured else LIMIT_FACTOR)
    return request, limit
