"""Measures what serving a model costs on this machine: `marina calibrate`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from handlers.worker.artifact import read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import longest
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.reader import open_reader
from handlers.worker.unpack import unpack
from handlers.worker.values import Instance, Shape
from marina.bench.load.payload import Payload, bodies_of, documents_of, read_instances, texts_of
from marina.bench.report.machine import machine
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.console import Progress
from marina.engines import engine_of
from marina.errors import MarinaError
from marina.plan.calibration.fit import fit_server, idle_times
from marina.plan.calibration.record import Calibration, ServerCosts, WorkerCosts, write_calibration
from marina.plan.calibration.server import (
    IDLE_RATE,
    INSTANCES,
    ONE_WORKER,
    WORKER_A_CORE,
    ClosedLoop,
    MeasuredServer,
    measure_loops,
    measure_pauses,
)
from marina.plan.calibration.worker import RequestSample, measure_contention, measure_worker
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.values import Floats, Requests, SimulationResult
from marina.project import Project
from marina.spec import Spec

BATCH_SIZE, DELAY_MS = 32, 1  # of the server that is measured
SIMULATED = 4000  # requests of a closed loop
MOST_SIZES = 4  # of core groups


def calibrate(
    spec: Spec, project: Project, server: BenchmarkServer, texts: str | None, progress: Progress
) -> tuple[Calibration, Path]:
    """Measure a model, and write what it costs beside its artifact; returns it and its file.

    Args:
        spec: of the model; its core groups and batch size have no influence.
        project: of the spec.
        server: a benchmark server.
        texts: what requests contain, as `read_payload` takes it; None for the spec's own.
        progress: called before each step.

    Raises:
        MarinaError: the engine computes on cores that belong to one process, which only an instance has.
        CompileError, ServerError: the model cannot be compiled or served.
    """
    if engine_of(spec.engine).cores.exclusive:
        raise MarinaError(
            f"{spec.name}: the engine {spec.engine} is calibrated on an instance, by make verify-hardware",
            "plans for other instances are estimates from AWS's published figures",
        )
    cores = len(cpu_cores())
    artifact = _archive(spec, server, str(cores))
    folder = server.project.root / "calibrated" / spec.name
    shutil.rmtree(folder, ignore_errors=True)
    unpack(server.project.model_store / f"{spec.name}.mar", folder)
    sample, payloads = sample_of(spec, artifact, texts or texts_of(spec, project))
    sizes = sorted({1, cores, *(1 << power for power in range(1, 20) if 1 << power < cores)})[-MOST_SIZES:]
    workers = []
    for number, size in enumerate(sizes):
        progress(f"a worker on {size} core{'s' * (size > 1)}", number, len(sizes) + 1)
        workers.append(measure_worker(folder, size, sample))
    progress("workers beside each other", len(sizes), len(sizes) + 1)
    contention = measure_contention(folder, cores) if cores > 1 else 0.0
    progress("starting the server", 0, 1)
    endpoint = server.serve(spec.name)
    loops, front, client = measure_loops(server, endpoint, payloads, cores, ONE_WORKER, progress)
    progress("the server with pauses between requests", 0, 1)
    idle = measure_pauses(endpoint, payloads[1])
    if cores > 1:
        _archive(spec, server, ",".join(["1"] * cores))
        endpoint = server.serve(spec.name)
        loops += measure_loops(server, endpoint, payloads, 1, WORKER_A_CORE, progress)[0]
    progress("fitting", 0, 1)
    served = MeasuredServer(loops, idle, front, client)
    model = Simulated(workers, sample, cores, contention)
    fit = fit_server(served, model.closed_loop)
    idle_spread = idle_times(idle, model.paced(fit.server))
    described = read_artifact(artifact)
    calibration = Calibration(
        model=spec.name,
        engine=described.engine,
        precision=described.precision,
        machine=machine(),
        cores=cores,
        contention=round(contention, 4),
        workers=tuple(workers),
        server=ServerCosts(**{**vars(fit.server), "idle": idle_spread}),
        error=round(fit.error, 4),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    return calibration, write_calibration(artifact, calibration)


def _archive(spec: Spec, server: BenchmarkServer, groups: str) -> Path:
    """Pack the model with these core groups; returns its artifact."""
    serving = spec.serving.model_copy(update={"batch_size": BATCH_SIZE, "batch_delay_ms": DELAY_MS})
    return server.archive(spec.model_copy(update={"core_groups": groups, "serving": serving}))


def sample_of(spec: Spec, artifact: Path, source: str) -> tuple[RequestSample, dict[int, Payload]]:
    """What requests contain, with the tokens of each instance; and payloads by the instances of a request."""
    instances: list[Instance] = read_instances(source, spec.instance_fields)
    described = read_artifact(artifact)
    reader = open_reader(artifact.joinpath, described.signature)
    rows = default_rows(instances, described.signature, reader, longest(described.shapes), "truncate")
    documents = documents_of(instances, spec.instance_fields)
    payloads = {count: Payload(bodies_of(documents, count), count, source) for count in INSTANCES}
    return RequestSample(documents, [len(row.ids) for row in rows]), payloads


def costs_of(
    worker: WorkerCosts, server: ServerCosts, alone: bool, client_here: bool, used: float = 1.0
) -> WorkerModel:
    """What a simulation takes, from a calibration.

    Args:
        worker, server: of the calibration.
        alone: whether the worker has all cores of its machine.
        client_here: whether the load generator computes on the machine too.
        used: see `WorkerModel`, and `used_of`.
    """
    slower = server.slower_alone if alone else server.slower
    return WorkerModel(
        times={Shape.parse(shape): time * slower for shape, time in worker.times.items()},
        again={Shape.parse(shape): time * slower for shape, time in worker.again.items()},
        spread=tuple(1 + (one - 1) * server.tail if one > 1 else one for one in worker.spread),
        idle=server.idle,
        batch=worker.batch,
        request=worker.request,
        gap=server.gap,
        handing=server.request,
        instance=worker.instance,
        token=worker.token,
        outside=server.outside,
        replying=server.replying,
        front=server.front + (server.client if client_here else 0.0),
        used=used,
    )


def used_of(worker: WorkerCosts, one: WorkerCosts) -> float:
    """The part of its cores' time that a worker uses: how well graphs scale from one core to its cores."""
    shares = [one.times[shape] / (worker.cores * time) for shape, time in worker.times.items()]
    return min(1.0, float(np.median(shares)))


class Simulated:
    """Simulates the loads that were measured.

    Args:
        workers: what a worker costs, by its cores.
        sample: what requests contain.
        cores: of the machine.
        contention: see `Calibration`.
    """

    def __init__(self, workers: Sequence[WorkerCosts], sample: RequestSample, cores: int, contention: float) -> None:
        self._workers = {worker.cores: worker for worker in workers}
        self._cores, self._contention = cores, contention
        self._tokens = np.array(sample.tokens, np.int64)

    def closed_loop(self, server: ServerCosts, loop: ClosedLoop) -> tuple[float, float, float, float]:
        """Requests per second, p50 and p99 of the latency in milliseconds, and mean requests of a batch."""
        requests = self._requests(np.zeros(SIMULATED), loop.instances, loop.connections)
        found = self._run(server, requests, loop.cores)
        rate, batch = SIMULATED / found.end * 1000, found.batched.sum() / found.batches.sum()
        p50, p99 = np.nanpercentile(found.latency, (50, 99))
        return float(rate), float(p50), float(p99), float(batch)

    def paced(self, server: ServerCosts) -> list[float]:
        """Latencies of single requests with pauses."""
        at = np.arange(SIMULATED) * 1000 / IDLE_RATE
        return [float(one) for one in self._run(server, self._requests(at, 1, 0), self._cores).latency]

    def _requests(self, at: Floats, instances: int, connections: int) -> Requests:
        tokens = np.resize(self._tokens, SIMULATED * instances)
        first = np.arange(SIMULATED + 1) * instances
        return Requests(at, np.zeros(SIMULATED, np.int64), first, tokens, connections)

    def _run(self, server: ServerCosts, requests: Requests, cores: int) -> SimulationResult:
        service = Service((cores,) * (self._cores // cores), BATCH_SIZE, DELAY_MS)
        models = models_of([costs_of(self._workers[cores], server, cores == self._cores, client_here=True)], [service])
        machines = machines_of([service], self._cores, self._contention, server.stolen, server.entering, server.timer)
        return simulate(requests, models, machines, 0)
