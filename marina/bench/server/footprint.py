"""Measures what a worker of an archive needs: one like those of the host `direct` gets the largest batches."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import yaml

from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE
from handlers.worker.archive.contents import read_contents
from handlers.worker.errors import FAILURE_MARK
from handlers.worker.hosts.frames import Message
from handlers.worker.placement import group_cores
from handlers.worker.placement.leases import FOLDER_VARIABLE
from marina.archive.footprint import Footprint, read_footprint, write_footprint
from marina.archive.read import placement_of
from marina.bench.report.machine import machine
from marina.bench.server.largest_requests import LargestRequests
from marina.errors import ServerError
from marina.files import locked
from marina.server.hosts.direct.bodies import ALL_BODIES_BYTES
from marina.server.hosts.direct.worker import Worker, WorkerLost
from marina.server.run.environment import serving_env
from marina.spec import Spec

# batches are sent until so many in turn have not raised the peak by this factor, or for so many seconds
BATCHES, GROWTH, MAX_S = 12, 1.01, 5.0
TOO_LARGE = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.SERVICE_UNAVAILABLE)
SMALLER = 0.75  # how large the next request is that is tried
PATIENCE = 4  # times the host's time-out: only memory is measured, and this machine may be busy with other work
WATCH_S = 0.005  # between two looks at the worker's memory
FIELDS = ("RssAnon", "RssShmem", "RssFile")
HEADERS = {"content-type": "application/json"}


class NotReady(ServerError):
    """A worker cannot be measured here, as it does not become READY, or answers none of the requests."""


def footprint_of(archive: Path, specs: Sequence[Spec], workdir: Path, measuring: Callable[[], None]) -> Footprint:
    """What a worker of an archive needs: as measured before on a machine like this, else as measured now.

    Args:
        archive: the archive, whose code is run.
        specs: the specs of its models.
        workdir: a folder on a disk, to unpack it.
        measuring: called before it is measured.

    Raises:
        NotReady: it cannot be measured here.
        ServerError: the worker ended under the largest batches; the message has its reason.
        OSError: there is no room to unpack the archive.
    """
    with locked(workdir / f"{archive.stem}.lock"):
        known, (_, groups) = read_footprint(archive), placement_of(archive)
        if known and (known.processor, known.cores) == (machine()["processor"], group_cores(groups)):
            return known
        measuring()
        folder = workdir / archive.stem
        try:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
            with zipfile.ZipFile(archive) as file:
                fingerprint = file.comment.decode()
                file.extractall(folder)
            footprint = asyncio.run(_measure(folder, archive.stem, specs))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        write_footprint(archive, fingerprint, footprint)
        return footprint


async def _measure(folder: Path, name: str, specs: Sequence[Spec]) -> Footprint:
    config = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    startup_s, response_s = float(config["startupTimeout"]), PATIENCE * float(config["responseTimeout"])
    lines: list[str] = []
    ready = False
    try:
        async with _watched_worker(folder, lines) as (worker, watch):
            start = time.monotonic()
            await worker.wait_ready(startup_s)
            ready_s = time.monotonic() - start
            description = (await worker.call(Message({"describe": True}), response_s)).fields["description"]
            for member, failure in description.get("failed", {}).items():
                raise NotReady(f"{name}: its model {member} cannot be served: {failure}")
            resting = memory_of(worker.pid)
            ready = True
            bodies = await _bodies(worker, folder, specs, int(config["batchSize"]), response_s)
            await _send(worker, bodies, int(config["batchSize"]), response_s, watch)
            loaded = memory_of(worker.pid)
    except (WorkerLost, ProcessLookupError) as error:
        reasons = [line.partition(FAILURE_MARK)[2].strip() for line in lines if FAILURE_MARK in line]
        reason = reasons[0] if reasons else "; ".join([str(error), *lines[-1:]])
        if ready:
            raise ServerError(
                f"{name}: its worker ended under the largest batches that the spec allows: {reason}",
                "lower serving.batch_size, max_tokens or max_body_bytes, or use a machine with more memory",
            ) from None
        raise NotReady(f"{name}: {reason}") from None
    return Footprint(
        resting_bytes=resting.private,
        peak_bytes=max(watch.peak, loaded.private),
        shared_bytes=loaded.shared,
        ready_s=round(ready_s, 2),
        cores=len(description["cores"]),
        processor=str(machine()["processor"]),
    )


@asynccontextmanager
async def _watched_worker(folder: Path, lines: list[str]) -> AsyncIterator[tuple[Worker, _Watch]]:
    """A worker of an unpacked archive, whose output becomes lines, and what watches its memory."""
    # leases of its own: a server that runs keeps its cores
    worker = await Worker.start(folder, {**serving_env(), FOLDER_VARIABLE: str(folder / "leases")}, lines.append)
    watch = _Watch(worker.pid)
    watching = asyncio.create_task(watch.run())
    try:
        yield worker, watch
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, ProcessLookupError):
            await watching
        await worker.stop()


async def _send(worker: Worker, bodies: Sequence[bytes], size: int, response_s: float, watch: _Watch) -> None:
    """Send full batches of each kind, and then random ones, until they raise the peak no more."""

    async def send(batch: list[bytes]) -> None:
        while sum(map(len, batch)) > ALL_BODIES_BYTES:  # the most that the front has at a time
            batch.pop()
        await worker.call(Message({"headers": [HEADERS] * len(batch)}, batch), response_s)

    for start in range(0, len(bodies), size):
        await send(list(bodies[start : start + size]))
    rng, end, highest, unchanged = random.Random(0), time.monotonic() + MAX_S, watch.peak, 0
    while unchanged < BATCHES and time.monotonic() < end:
        await send(rng.sample(bodies, rng.randint(1, size)))
        unchanged += 1
        if watch.peak > highest * GROWTH:
            highest, unchanged = watch.peak, 0


async def _bodies(worker: Worker, folder: Path, specs: Sequence[Spec], size: int, response_s: float) -> list[bytes]:
    """For each model requests with as many texts, or with as long a text, as it answers or refuses; `size` of each.

    Raises:
        NotReady: a model does not answer a text that it was compiled with.
    """
    contents = read_contents(folder / ARTIFACT_FOLDER)
    bodies: list[bytes] = []
    for spec in specs:
        requests = LargestRequests(spec, folder / ARTIFACT_FOLDER / contents.folders[spec.name], contents.bundle)
        for request_of, most in ((requests.many, requests.max_texts), (requests.long, requests.max_times)):
            answered = most
            while (status := await _status(worker, request_of(answered, 0), response_s)) != HTTPStatus.OK:
                if status not in TOO_LARGE or (answered == 1 and request_of == requests.many):
                    raise NotReady(f"{spec.name}: a request of texts that it was compiled with is answered {status}")
                if answered == 1:  # such a long text is always refused
                    break
                answered = max(1, int(SMALLER * answered))
            bodies += [request_of(times, number) for times in dict.fromkeys((answered, most)) for number in range(size)]
    return bodies


async def _status(worker: Worker, body: bytes, response_s: float) -> int:
    answer = await worker.call(Message({"headers": [HEADERS]}, [body]), response_s)
    ((status, *_),) = answer.fields["replies"]
    return int(status)


class Memory(NamedTuple):
    """The bytes of a process that no other has, and which cannot be read again; and those of mapped files."""

    private: int
    shared: int


def memory_of(pid: int) -> Memory:
    """The memory of a process, from the Linux kernel's /proc/PID/status; ProcessLookupError if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(f"the process {pid} has ended") from None
    kilobytes = {name: int(line.split()[1]) for line in lines for name in FIELDS if line.startswith(f"{name}:")}
    if len(kilobytes) < len(FIELDS):
        raise ProcessLookupError(f"the process {pid} has ended, or this system does not say what memory it has")
    return Memory((kilobytes["RssAnon"] + kilobytes["RssShmem"]) * 1024, kilobytes["RssFile"] * 1024)


class _Watch:
    """Looks often at the memory of a process, and keeps the most bytes that it has for itself."""

    def __init__(self, pid: int) -> None:
        self._pid, self.peak = pid, 0

    async def run(self) -> None:
        while True:
            self.peak = max(self.peak, memory_of(self._pid).private)
            await asyncio.sleep(WATCH_S)
