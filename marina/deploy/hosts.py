"""Which host an image has."""

from __future__ import annotations

from marina.deploy.scale import Scale
from marina.server.run.state import DIRECT, TORCHSERVE


def default_host(stack: str) -> str:
    """The host of images of a stack: `direct`, which gets fixes; on Neuron TorchServe, with which AWS documents it."""
    return DIRECT if stack == "cpu" else TORCHSERVE


def host_of(host: str | None, scale: Scale | None, default: str) -> str:
    """The host of an image: the named one, else that of the plan, else the default."""
    return host or (scale.host if scale else default)
