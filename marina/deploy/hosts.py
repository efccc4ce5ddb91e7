"""What each host needs of an image and of the machine that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from marina.archive.describe import JAVA_BYTES
from marina.deploy.scale import Scale
from marina.server.direct.bodies import ALL_BODIES_BYTES
from marina.server.state import DIRECT, TORCHSERVE
from marina.server.torchserve.memory import JAVA_MAX_BYTES


class HostNeeds(NamedTuple):
    """The needs of a host.

    Attributes:
        packages: that it imports and workers do not.
        grpc: packages without which it has no gRPC.
        java: whether Java and nginx carry it.
        idle_bytes, max_bytes: the memory of its processes, without workers: as measured, see docs/deploy/kubernetes.md.
    """

    packages: tuple[str, ...]
    grpc: tuple[str, ...]
    java: bool
    idle_bytes: int
    max_bytes: int


# the process that starts all others; with TorchServe nginx too
STARTER_BYTES, NGINX_BYTES = 100_000_000, 100_000_000
FRONT_BYTES = 90_000_000
# a body is in the message to its worker too; and 20,000 connections
FRONT_MAX_BYTES = FRONT_BYTES + 2 * ALL_BODIES_BYTES + 150_000_000

HOSTS: Mapping[str, HostNeeds] = {
    TORCHSERVE: HostNeeds(
        (), (), True, JAVA_BYTES + STARTER_BYTES + NGINX_BYTES, JAVA_MAX_BYTES + 2 * (STARTER_BYTES + NGINX_BYTES)
    ),
    DIRECT: HostNeeds(
        ("httptools", "uvicorn", "uvloop"),
        ("grpcio", "protobuf"),
        False,
        FRONT_BYTES + STARTER_BYTES,
        FRONT_MAX_BYTES + STARTER_BYTES,
    ),
}


def default_host(stack: str) -> str:
    """The host of images of a stack: `direct`, which gets fixes; on Neuron TorchServe, with which AWS documents it."""
    return DIRECT if stack == "cpu" else TORCHSERVE


def host_of(host: str | None, scale: Scale | None, default: str) -> str:
    """The host of an image: the named one, else that of the plan, else the default."""
    return host or (scale.host if scale else default)
