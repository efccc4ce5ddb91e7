"""What serving a model costs on one machine: plain values, stored beside the artifact."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from marina.files import write_json
from marina.plan.simulator.uncertainty import Uncertainty

FORMAT = 5
SUFFIX = ".calibration.json"


@dataclass(frozen=True)
class WorkerCosts:
    """What a worker needs on so many cores; times in milliseconds.

    Attributes:
        cores: cores that it computes on.
        times, again: of one call of each graph by shape: after another graph's call, and after its own.
        spread: equally likely factors of a batch's time, in ascending order.
        batch, request, instance, token: the time for each of these, besides the graphs.
    """

    cores: int
    times: dict[str, float]
    again: dict[str, float]
    spread: tuple[float, ...]
    batch: float
    request: float
    instance: float
    token: float


@dataclass(frozen=True)
class ServerCosts:
    """What a host and its clients add; times in milliseconds.

    Attributes:
        gap: between two batches of a worker.
        request: for each request of a batch, between two batches.
        outside: from a client to the queue and from the worker to the client, together.
        entering: at least this between two requests that come at the same time.
        replying: between two answers of a batch.
        front, client: CPU time for a request, of the host's process and of the load generator.
        stolen: how much a millisecond of these delays a batch if all cores compute.
        slower, slower_alone: graphs in a server, as a factor of their times without one: of several workers on an
            instance, and of a worker that has all its cores.
        tail: how much wider the slower half of a batch's spread is in a server, as a factor.
        timer: how much later than requested a waiting thread of TorchServe wakes up.
        idle: equally likely times that an answer takes longer if the worker was idle, in ascending order.
    """

    gap: float
    request: float
    outside: float
    entering: float
    replying: float
    front: float
    client: float
    stolen: float
    slower: float
    slower_alone: float
    tail: float
    timer: float
    idle: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """What serving one artifact costs on one machine.

    Attributes:
        model, engine, precision: of the artifact.
        host: what carried its workers.
        machine: the processor and its cores, from `marina.bench.report.machine`.
        cores: number of the machine's cores that were used.
        contention: how much longer calls take if all other cores compute too, as a fraction.
        workers: costs of a worker, by its cores.
        server: costs of the host.
        worker_mb: resident memory of a worker on all cores after the loads, with the files that it shares.
        error: how far the simulated loads of the calibration are from the measured ones, as a median fraction.
        probe_ms: one call of the graph of `probe` on all cores, as the mean over the calibration.
        noise: how far a measurement of it was from the mean at most, as a fraction.
        uncertainty: of simulations with these costs.
        made: when, in UTC.
    """

    model: str
    engine: str
    precision: str
    host: str
    machine: dict[str, Any]
    cores: int
    contention: float
    workers: tuple[WorkerCosts, ...]
    server: ServerCosts
    worker_mb: float
    error: float
    probe_ms: float
    noise: float
    uncertainty: Uncertainty
    made: str


_CALIBRATION = TypeAdapter(Calibration)


def calibration_file(artifact: Path, host: str) -> Path:
    """The file for the artifact in a folder, and a host."""
    return artifact.parent / f"{artifact.name}.{host}{SUFFIX}"


def write_calibration(artifact: Path, calibration: Calibration) -> Path:
    """Write the file atomically; returns its path."""
    path = calibration_file(artifact, calibration.host)
    write_json(path, {"format": FORMAT, **asdict(calibration)})
    return path


def read_calibration(artifact: Path, host: str) -> Calibration | None:
    """The calibration of the artifact in a folder with a host; None if there is none of this format."""
    try:
        document = json.loads(calibration_file(artifact, host).read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT:
            return None
        return _CALIBRATION.validate_python(document)
    except (OSError, ValueError, KeyError, AttributeError, ValidationError):
        return None
