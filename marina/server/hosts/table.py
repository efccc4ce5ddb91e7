"""All hosts, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from marina.server.hosts.direct.host import DIRECT_HOST
from marina.server.hosts.host import Host
from marina.server.hosts.torchserve.host import TORCHSERVE_HOST
from marina.server.run.state import DIRECT, TORCHSERVE

HOSTS: Mapping[str, Host] = {TORCHSERVE: TORCHSERVE_HOST, DIRECT: DIRECT_HOST}


def check_host(name: str) -> str:
    """The name itself; ValueError if no host has it."""
    if name not in HOSTS:
        raise ValueError(f"there is no host {name}; choose {' or '.join(HOSTS)}")
    return name


HostName = Annotated[str, AfterValidator(check_host)]
