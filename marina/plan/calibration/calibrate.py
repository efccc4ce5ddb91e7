"""Measures what serving a model costs on this machine: `marina calibrate`."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean

import numpy as np

from handlers.worker.artifact import read_artifact
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.rows.prompts import default_rows
from handlers.worker.rows.reader import open_reader
from handlers.worker.tasks import TASKS
from handlers.worker.unpack import unpack
from handlers.worker.values import Instance, Shape
from marina.bench.load.payload import Payload, bodies_of, documents_of, read_instances, texts_of
from marina.bench.report.machine import machine
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.compiler.examples import expand, rows_of_text
from marina.console import Progress
from marina.engines import engine_of
from marina.errors import MarinaError
from marina.plan.calibration.fit import fit_server, idle_times
from marina.plan.calibration.record import Calibration, ServerCosts, WorkerCosts, write_calibration
from marina.plan.calibration.server import (
    IDLE_RATE,
    INSTANCES,
    ONE_WORKER,
    WARM_UP_S,
    WORKER_A_CORE,
    MeasuredLoad,
    MeasuredServer,
    measure_loads,
    measure_pauses,
    open_loop_times,
)
from marina.plan.calibration.speed import probe
from marina.plan.calibration.worker import RequestSample, measure_contention, measure_worker
from marina.plan.simulator.batches import NO_DELAY
from marina.plan.simulator.run import simulate
from marina.plan.simulator.system import Service, WorkerModel, machines_of, models_of
from marina.plan.simulator.values import Floats, Requests, SimulationResult
from marina.plan.uncertainty import Uncertainty, next_factors
from marina.project import Project
from marina.shapes.auto import with_shapes
from marina.spec import Spec

BATCH_SIZE, DELAY_MS = 32, 1  # of the server that is measured
SIMULATED_DELAYS_MS = {"torchserve": DELAY_MS, "direct": NO_DELAY}  # by host
SIMULATED_REQUESTS = 4000  # requests of a closed loop
MAX_SIZES = 4  # of core groups


def calibrate(
    spec: Spec, project: Project, server: BenchmarkServer, texts: str | None, progress: Progress, host: str
) -> tuple[Calibration, Path]:
    """Measure a model, and write its calibration beside its artifact; returns the calibration and its file.

    Args:
        spec: of the model; its core groups and batch size have no influence.
        project: of the spec.
        server: a benchmark server.
        texts: the texts of requests, as `read_payload` takes them; None for the spec's texts.
        progress: called before each step.
        host: what carries the workers.

    Raises:
        MarinaError: the engine computes on cores that belong to one process, which only an instance has.
        CompileError, ServerError: the model cannot be compiled or served.
    """
    if engine_of(spec.engine).cores.exclusive:
        raise MarinaError(
            f"{spec.name}: the engine {spec.engine} is calibrated on an instance, by make verify-hardware",
            "plans for other instances are estimates from AWS's published figures",
        )
    for name in TASKS[spec.task].example_parameters.keys() - spec.parameters.keys():
        raise MarinaError(
            f"{spec.name}: what a text costs depends on {name}, which the spec does not set",
            f"write {name} as requests have it under parameters in models/{spec.name}.yaml",
        )
    text_source = texts or texts_of(spec, project)
    instances = read_instances(text_source, spec.instance_fields)  # before anything takes long
    spec = with_shapes(spec, project, progress)  # once, whatever the core groups
    cores = len(cpu_cores())
    artifact = _archive(spec, server, str(cores))
    folder = server.project.root / "calibrated" / spec.name
    shutil.rmtree(folder, ignore_errors=True)
    unpack(server.project.model_store / f"{spec.name}.mar", folder)
    sample, payloads = sample_of(instances, text_source, spec, artifact)
    sizes = sorted({1, cores, *(1 << power for power in range(1, 20) if 1 << power < cores)})[-MAX_SIZES:]
    workers, probes = [], [probe(artifact, cores)]
    for number, size in enumerate(sizes):
        progress(f"a worker on {size} core{'s' * (size > 1)}", number, len(sizes) + 1)
        workers.append(measure_worker(folder, size, sample))
        probes.append(probe(artifact, cores))
    progress("workers beside each other", len(sizes), len(sizes) + 1)
    contention = measure_contention(folder, cores) if cores > 1 else 0.0
    probes.append(probe(artifact, cores))
    progress("starting the server", 0, 1)
    endpoint = server.serve(spec.name, host=host)
    loads, front, client = measure_loads(server, endpoint, payloads, cores, ONE_WORKER, progress)
    probes.append(probe(artifact, cores))
    progress("the server with pauses between requests", 0, 1)
    idle_latencies = measure_pauses(endpoint, payloads[1])
    probes.append(probe(artifact, cores))
    if cores > 1:
        _archive(spec, server, ",".join(["1"] * cores))
        endpoint = server.serve(spec.name, host=host)
        loads += measure_loads(server, endpoint, payloads, 1, WORKER_A_CORE, progress)[0]
        probes.append(probe(artifact, cores))
    progress("fitting", 0, 1)
    measured = MeasuredServer(loads, idle_latencies, front, client)
    simulator = LoadSimulator(workers, sample, cores, contention, SIMULATED_DELAYS_MS[host])
    fit = fit_server(measured, simulator.figures)
    probe_ms = fmean(probes)
    idle_spread = idle_times(idle_latencies, simulator.paced(fit.server))
    description = read_artifact(artifact)
    calibration = Calibration(
        model=spec.name,
        engine=description.engine,
        precision=description.precision,
        host=host,
        machine=machine(),
        cores=cores,
        contention=round(contention, 4),
        workers=tuple(workers),
        server=ServerCosts(**{**vars(fit.server), "idle": idle_spread}),
        error=round(fit.error, 4),
        probe_ms=round(probe_ms, 4),
        uncertainty=Uncertainty(next_factors([math.log(value / probe_ms) for value in probes]), fit.p50, fit.p99),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    return calibration, write_calibration(artifact, calibration)


def _archive(spec: Spec, server: BenchmarkServer, groups: str) -> Path:
    """Pack the model with these core groups; returns its artifact."""
    rows = rows_of_text(spec)
    limits = {"max_instances": spec.serving.max_instances * rows, "max_tokens": spec.serving.max_tokens * rows}
    serving = spec.serving.model_copy(update={"batch_size": BATCH_SIZE, "batch_delay_ms": DELAY_MS, **limits})
    return server.archive(spec.model_copy(update={"core_groups": groups, "serving": serving}))


def sample_of(
    instances: list[Instance], source: str, spec: Spec, artifact: Path
) -> tuple[RequestSample, dict[int, Payload]]:
    """The contents of requests with the tokens of their rows, and payloads by the instances of a request."""
    description = read_artifact(artifact)
    reader = open_reader(artifact.joinpath, description.signature)
    texts = expand(spec, instances)
    rows = default_rows(texts, description.signature, reader, max_sequence_length(description.shapes), "truncate")
    documents = documents_of(instances, spec.instance_fields)
    payloads = {count: Payload(bodies_of(documents, count), count, source) for count in INSTANCES}
    return RequestSample(documents, [len(row.ids) for row in rows]), payloads


def costs_of(
    worker: WorkerCosts, server: ServerCosts, alone: bool, client_here: bool, core_usage: float = 1.0
) -> WorkerModel:
    """The costs of a worker in a simulation, from a calibration.

    Args:
        worker, server: of the calibration.
        alone: whether the worker has all cores of its machine.
        client_here: whether the load generator computes on the machine too.
        core_usage: see `WorkerModel`, and `core_usage_of`.
    """
    slower = server.slower_alone if alone else server.slower
    return WorkerModel(
        times={Shape.parse(shape): time * slower for shape, time in worker.times.items()},
        again={Shape.parse(shape): time * slower for shape, time in worker.again.items()},
        spread=tuple(1 + (factor - 1) * server.tail if factor > 1 else factor for factor in worker.spread),
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
        core_usage=core_usage,
    )


def core_usage_of(worker: WorkerCosts, single_core_worker: WorkerCosts) -> float:
    """The part of its cores' time that a worker uses: how well graphs scale from one core to its cores."""
    shares = [single_core_worker.times[shape] / (worker.cores * time) for shape, time in worker.times.items()]
    return min(1.0, float(np.median(shares)))


class LoadSimulator:
    """Simulates the loads of a calibration.

    Args:
        workers: the costs of a worker for each number of cores.
        sample: the contents of requests.
        cores: of the machine.
        contention: see `Calibration`.
        delay_ms: see `Service`.
    """

    def __init__(
        self, workers: Sequence[WorkerCosts], sample: RequestSample, cores: int, contention: float, delay_ms: int
    ) -> None:
        self._workers = {worker.cores: worker for worker in workers}
        self._cores, self._contention, self._delay_ms = cores, contention, delay_ms
        self._tokens, self._rows = np.array(sample.tokens, np.int64), sample.rows

    def figures(self, server: ServerCosts, load: MeasuredLoad) -> tuple[float, float, float, float]:
        """Requests per second, p50 and p99 of the latency in milliseconds, and mean requests of a batch."""
        at = np.array(open_loop_times(load.sent)) if load.sent else np.zeros(SIMULATED_REQUESTS)
        result = self._run(server, self._requests(at, load.instances, load.connections), load.cores)
        rate, batch = len(at) / result.end * 1000, result.batched.sum() / result.batches.sum()
        counted = at >= WARM_UP_S * 1000 if load.sent else np.ones(len(at), bool)
        p50, p99 = np.nanpercentile(result.latency[counted], (50, 99))
        return float(rate), float(p50), float(p99), float(batch)

    def paced(self, server: ServerCosts) -> list[float]:
        """Latencies of single requests with pauses."""
        at = np.arange(SIMULATED_REQUESTS) * 1000 / IDLE_RATE
        return [float(latency) for latency in self._run(server, self._requests(at, 1, 0), self._cores).latency]

    def _requests(self, at: Floats, instances: int, connections: int) -> Requests:
        rows = instances * self._rows
        tokens = np.resize(self._tokens, len(at) * rows)
        return Requests(at, np.zeros(len(at), np.int64), np.arange(len(at) + 1) * rows, tokens, connections)

    def _run(self, server: ServerCosts, requests: Requests, cores: int) -> SimulationResult:
        service = Service((cores,) * (self._cores // cores), BATCH_SIZE, self._delay_ms)
        models = models_of([costs_of(self._workers[cores], server, cores == self._cores, client_here=True)], [service])
        machines = machines_of([service], self._cores, self._contention, server.stolen, server.entering, server.timer)
        return simulate(requests, models, machines, 0)
