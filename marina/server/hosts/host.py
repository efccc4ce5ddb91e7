"""What the rest of Marina knows of a host: how to start it, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import psutil

from marina.project import Project
from marina.server.run.state import RunState

STARTER_BYTES = 100_000_000  # in a container, the process that starts all others


class Host(NamedTuple):
    """What carries workers and speaks to clients.

    Attributes:
        start: starts its process without models, given the names of those that will be registered, and tokens that
            requests may bring beside the server's own; returns the state with its process. ServerError if it fails.
        processes: the processes of a run, orphaned ones included.
        ports: the names of the ports that it listens on.
        has_access: whether it does what an `Access` says.
        delays_ms: how long its batches may wait for more requests, from the shortest; 0 if they never wait.
        java: whether Java and nginx carry it.
        packages: that it imports and workers do not.
        grpc: packages without which it has no gRPC.
        idle_bytes, max_bytes: the memory of its processes in a container, without workers: as measured, see
            docs/deploy/kubernetes.md.
    """

    start: Callable[[Project, RunState, Sequence[str], Sequence[str]], RunState]
    processes: Callable[[Project, RunState], list[psutil.Process]]
    ports: tuple[str, ...]
    has_access: bool
    delays_ms: tuple[int, ...]
    java: bool
    packages: tuple[str, ...]
    grpc: tuple[str, ...]
    idle_bytes: int
    max_bytes: int
