"""Measures what serving a model costs on this machine: `marina calibrate`."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.artifact import read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import longest
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.reader import open_reader
from handlers.worker.values import Instance, Shape
from marina.bench.load.payload import Payload, bodies_of, documents_of, read_instances, texts_of
from marina.bench.report.machine import machine
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.console import Progress
from marina.engines import engine_of
from marina.errors import MarinaError
from marina.plan.calibration.fit import fit_server, idle_times
from marina.plan.calibration.record import Calibration, ServerCosts, WorkerCosts, write_calibration
from marina.plan.calibration.server import CLOSED, IDLE_RATE, ClosedLoop, measure_server
from marina.plan.calibration.worker import Sample, measure_contention, measure_worker
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Costs, Service, machines_of, models_of
from marina.plan.simulator.values import Outcome, Requests
from marina.project import Project
from marina.score.model import unpack
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
    serving = spec.serving.model_copy(update={"batch_size": BATCH_SIZE, "batch_delay_ms": DELAY_MS})
    served_spec = spec.model_copy(update={"core_groups": str(cores), "serving": serving})
    artifact = server.archive(served_spec)
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
    served = measure_server(server, endpoint, payloads, progress)
    progress("fitting", 0, 1)
    model = _Model(workers[-1], sample, cores)
    fit = fit_server(served, model.closed_loop)
    idle = idle_times(served.idle, model.paced(fit.server))
    described = read_artifact(artifact)
    calibration = Calibration(
        model=spec.name,
        engine=described.engine,
        precision=described.precision,
        machine=machine(),
        cores=cores,
        contention=round(contention, 4),
        workers=tuple(workers),
        server=ServerCosts(**{**vars(fit.server), "idle": idle}),
        error=round(fit.error, 4),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    return calibration, write_calibration(artifact, calibration)


def sample_of(spec: Spec, artifact: Path, source: str) -> tuple[Sample, dict[int, Payload]]:
    """What requests contain, with the tokens of each instance; and payloads by the instances of a request."""
    instances: list[Instance] = read_instances(source, spec.instance_fields)
    described = read_artifact(artifact)
    reader = open_reader(artifact.joinpath, described.signature)
    rows = default_rows(instances, described.signature, reader, longest(described.shapes), "truncate")
    documents = documents_of(instances, spec.instance_fields)
    payloads = {count: Payload(bodies_of(documents, count), count, source) for count in {each for _, each in CLOSED}}
    return Sample(documents, [len(row.ids) for row in rows]), payloads


def costs_of(worker: WorkerCosts, server: ServerCosts, client_here: bool) -> Costs:
    """What a simulation takes, from a calibration; with the time of the load generator if it is on the machine."""
    return Costs(
        times={Shape.parse(shape): time for shape, time in worker.times.items()},
        spread=worker.spread,
        idle=server.idle,
        batch=worker.batch + server.gap,
        request=worker.request + server.request,
        instance=worker.instance,
        token=worker.token,
        outside=server.outside,
        replying=server.replying,
        front=server.front + (server.client if client_here else 0.0),
    )


class _Model:
    """Simulates the loads that were measured."""

    def __init__(self, worker: WorkerCosts, sample: Sample, cores: int) -> None:
        self._worker, self._cores = worker, cores
        self._tokens = np.array(sample.tokens, np.int64)
        self._service = Service((cores,), BATCH_SIZE, DELAY_MS)

    def closed_loop(self, server: ServerCosts, loop: ClosedLoop) -> tuple[float, float]:
        """Requests per second and median latency."""
        requests = self._requests(np.zeros(SIMULATED), loop.instances, loop.connections)
        found = self._run(server, requests)
        return SIMULATED / found.end * 1000, float(np.nanmedian(found.latency))

    def paced(self, server: ServerCosts) -> list[float]:
        """Latencies of single requests with pauses."""
        at = np.arange(SIMULATED) * 1000 / IDLE_RATE
        return [float(one) for one in self._run(server, self._requests(at, 1, 0)).latency]

    def _requests(self, at: np.ndarray[Any, Any], instances: int, connections: int) -> Requests:
        tokens = np.resize(self._tokens, SIMULATED * instances)
        first = np.arange(SIMULATED + 1) * instances
        return Requests(at, np.zeros(SIMULATED, np.int64), first, tokens, connections)

    def _run(self, server: ServerCosts, requests: Requests) -> Outcome:
        models = models_of([costs_of(self._worker, server, client_here=True)], [self._service])
        machines = machines_of([self._service], self._cores, stolen=server.stolen, entering=server.entering, timer=server.timer)
        return simulate(requests, models, machines, 0)
