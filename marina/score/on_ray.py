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

from handlers.worker.unpack import private_folder, unpack
from marina.errors import MarinaError
from marina.score.model import usable_cores
from marina.score.values import Shard
from marina.score.work import AT_HAND, Done, Failed, ProcessSetup, Ready, Worker, message_of

LOCAL = "local"
WAIT_S = 1.0
REACH_S = 10.0
NEURON_CORES = "neuron_cores"  # Ray's name of NeuronCores; it tells an actor which are its own


class Actors(NamedTuple):
    """What each actor has.

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
            folder = _unpacked(archive, actors.archive.stem)
            # as many groups as this node has, of which the actor takes one
            groups = max(1, usable_cores(actors.engine) // actors.cores)
            sizes = ",".join([str(actors.cores)] * groups)
            self._worker = Worker(setup._replace(folder=folder, groups=sizes))
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


def _unpacked(archive: bytes, name: str) -> Path:
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
        socket.create_connection((host, int(port)), REACH_S).close()


class RayPool:
    """Actors of a Ray cluster; see `Pool`. It has as many as the cluster has room for, and more when nodes come.

    Args:
        setup: what each needs.
        actors: what each has.
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
        where: dict[str, Any] = (
            {"address": LOCAL, "include_dashboard": False} if address == LOCAL else {"address": address}
        )
        try:
            _check_reachable(address)
            ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise MarinaError(
                f"no Ray cluster at {address}: {reason}", "name the address of its head, as HOST:6379"
            ) from None
        self._messages = redirect_stdout(sys.stderr)  # Ray prints its own, while stdout is for what the command answers
        self._messages.__enter__()
        self._setup = setup
        self._actors = actors
        self._archive = ray.put(actors.archive.read_bytes())
        own = {"num_cpus": actors.cores} if actors.resource == "CPU" else {"resources": {actors.resource: actors.cores}}
        # a dead actor is replaced by a new one, and not by Ray: its shards may go to others
        options = {"max_restarts": 0, "max_concurrency": AT_HAND + 1, **own}
        self._class = ray.remote(**options)(RayWorker)
        self._numbers = itertools.count()
        self._handles: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}  # what actors will say
        self.at_hand: dict[int, list[Shard]] = {}

    def grow(self) -> None:
        room = int(self._ray.cluster_resources().get(self._actors.resource, 0) // self._actors.cores)
        while len(self._handles) < max(1, room):
            number = next(self._numbers)
            self._handles[number] = self._class.remote(self._setup, self._archive, self._actors)
            self.at_hand[number] = []
            self._waiting[self._handles[number].ready.remote()] = number

    def send(self, to: int, shard: Shard) -> None:
        self.at_hand[to].append(shard)
        self._waiting[self._handles[to].answer.remote(shard)] = to

    def receive(self) -> Iterator[tuple[int, Ready | Done | Failed | None]]:
        if not self._waiting:
            time.sleep(WAIT_S)
            return
        self._ray.wait(list(self._waiting), num_returns=1, timeout=WAIT_S)
        ready, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
        for one in ready:
            number = self._waiting.pop(one, None)
            if number is None:  # of an actor that was buried meanwhile
                continue
            try:
                yield number, self._ray.get(one)
            except self._ray.exceptions.RayActorError:
                yield number, None
            except self._ray.exceptions.RayError as error:
                yield number, Failed(None, message_of(error))

    def bury(self, dead: int) -> tuple[list[Shard], str]:
        self._ray.kill(self._handles.pop(dead))  # one that only cannot be reached must not go on
        self._waiting = {one: number for one, number in self._waiting.items() if number != dead}
        return self.at_hand.pop(dead), "its actor or the actor's node lost"

    def end(self) -> None:
        for handle in self._handles.values():
            self._ray.kill(handle)
        self._handles.clear()
        self._ray.shutdown()
        self._messages.__exit__(None, None, None)
