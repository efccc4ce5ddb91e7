"""The processes of a job on a Ray cluster: an actor for each core group. Only this file imports Ray."""

from __future__ import annotations

import hashlib
import itertools
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.archive.unpack import private_folder, unpack
from marina.archive.unpacked import usable_cores
from marina.console import err
from marina.errors import MarinaError
from marina.score.values import Shard
from marina.score.work import SHARDS_PER_PROCESS, Done, Failed, ProcessSetup, Ready, Worker, message_of

LOCAL = "local"
WAIT_S = 1.0
CONNECT_S = 10.0
NEURON_CORES = "neuron_cores"  # Ray's name of NeuronCores; Ray tells each actor which cores it has


class Actors(NamedTuple):
    """What all actors of a job share.

    Attributes:
        archive: the path of the archive here; every node gets a copy.
        engine: the engine of its model.
        cores: how many cores it computes on.
        resource: Ray's name of these cores.
    """

    archive: Path
    engine: str
    cores: int
    resource: str


class RayWorker:
    """An actor: the same as a process of a core group on one machine."""

    def __init__(self, setup: ProcessSetup, archive: bytes, actors: Actors) -> None:
        self._worker: Worker | None = None
        try:
            folder = _unpack_on_node(archive, actors.archive.stem)
            # as many groups as this node has, of which the actor takes one
            group_count = max(1, usable_cores(actors.engine) // actors.cores)
            sizes = ",".join([str(actors.cores)] * group_count)
            self._worker = Worker(setup._replace(folder=folder, core_groups=sizes))
            self._ready: Ready | Failed = self._worker.ready
        except Exception as error:
            self._ready = Failed(None, message_of(error))

    def ready(self) -> Ready | Failed:
        """How loading the model ended."""
        return self._ready

    def answer(self, shard: Shard) -> Done | Failed:
        """Read, compute and write a shard."""
        assert self._worker
        return self._worker.answer(shard)


def _unpack_on_node(archive: bytes, name: str) -> Path:
    """Unpack an archive on this node, once for all its actors."""
    folder = private_folder("marina-score") / f"{name}-{hashlib.sha256(archive).hexdigest()[:12]}"
    with tempfile.NamedTemporaryFile(suffix=".mar") as file:
        file.write(archive)
        file.flush()
        unpack(Path(file.name), folder)
    return folder


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at an address HOST:PORT, for which Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_S).close()


class RayPool:
    """Actors of a Ray cluster; see `Pool`. It has as many as the cluster has room for, and more when nodes come.

    Args:
        setup: the setup of each actor.
        actors: what all actors share.
        address: of the cluster; "local" to start one on this machine.

    Raises:
        MarinaError: Ray is not installed, or there is no such cluster.
    """

    def __init__(self, setup: ProcessSetup, actors: Actors, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise MarinaError("Ray is not installed", "install it with pip install 'ray>=2.9'") from None
        self._ray = ray
        init_options: dict[str, Any] = (
            {"address": LOCAL, "include_dashboard": False} if address == LOCAL else {"address": address}
        )
        try:
            _check_reachable(address)
            ray.init(**init_options, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise MarinaError(
                f"no Ray cluster at {address}: {reason}", "name the address of its head, as HOST:6379"
            ) from None
        # Ray prints on stdout, which is for the output of the command
        self._stdout_redirect = redirect_stdout(sys.stderr)
        self._stdout_redirect.__enter__()
        self._setup = setup
        self._actors = actors
        self._archive = ray.put(actors.archive.read_bytes())
        resources = (
            {"num_cpus": actors.cores} if actors.resource == "CPU" else {"resources": {actors.resource: actors.cores}}
        )
        # a dead actor is replaced by a new one, and not by Ray: its shards may go to others
        actor_options = {"max_restarts": 0, "max_concurrency": SHARDS_PER_PROCESS + 1, **resources}
        self._actor_class = ray.remote(**actor_options)(RayWorker)
        self._waits = False
        self._numbers = itertools.count()
        self._handles: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}  # the actor of each message that is still to come
        self.assigned: dict[int, list[Shard]] = {}

    def grow(self) -> None:
        cores, resource = self._actors.cores, self._actors.resource
        node_cores = [node["Resources"].get(resource, 0) for node in self._ray.nodes() if node["Alive"]]
        if max(node_cores, default=0) < cores and not self._waits:
            self._waits = True  # for a node that comes
            err.print(f"no node of the cluster has {cores} {resource}, which an actor needs; waiting for one")
        while len(self._handles) < max(1, sum(int(count // cores) for count in node_cores)):
            number = next(self._numbers)
            self._handles[number] = self._actor_class.remote(self._setup, self._archive, self._actors)
            self.assigned[number] = []
            self._pending[self._handles[number].ready.remote()] = number

    def send(self, number: int, shard: Shard) -> None:
        self.assigned[number].append(shard)
        self._pending[self._handles[number].answer.remote(shard)] = number

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        if not self._pending:
            time.sleep(WAIT_S)
            return
        self._ray.wait(list(self._pending), num_returns=1, timeout=WAIT_S)
        ready_references, _ = self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        for reference in ready_references:
            number = self._pending.pop(reference, None)
            if number is None:  # of an actor that was removed meanwhile
                continue
            try:
                yield number, self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                yield number, None
            except self._ray.exceptions.RayError as error:
                yield number, Failed(None, message_of(error))

    def remove_dead(self, number: int) -> tuple[list[Shard], str]:
        self._ray.kill(self._handles.pop(number))  # an actor that only cannot be reached must not go on
        self._pending = {reference: owner for reference, owner in self._pending.items() if owner != number}
        return self.assigned.pop(number), "its actor or the actor's node lost"

    def end(self) -> None:
        for handle in self._handles.values():
            self._ray.kill(handle)
        self._handles.clear()
        self._ray.shutdown()
        self._stdout_redirect.__exit__(None, None, None)
