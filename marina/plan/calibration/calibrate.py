"""Measures what serving a model costs on this machine: `marina calibrate`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean

from handlers.worker.archive.artifact import read_artifact
from handlers.worker.archive.unpack import unpack
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tasks import TASKS
from handlers.worker.values import Instance
from marina.bench.load.payload import Payload, bodies_of, documents_of, read_instances, texts_of
from marina.bench.report.machine import machine
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.compiler.examples import expand, rows_of_text
from marina.compiler.lengths import count_tokens
from marina.console import Progress
from marina.engines import engine_of
from marina.errors import MarinaError
from marina.plan.calibration.fit import fit_server, idle_times
from marina.plan.calibration.loads import LoadSimulator
from marina.plan.calibration.record import Calibration, write_calibration
from marina.plan.calibration.server import (
    BATCH_SIZE,
    INSTANCES,
    ONE_WORKER,
    WORKER_A_CORE,
    measure_loads,
    measure_pauses,
)
from marina.plan.calibration.speed import probe
from marina.plan.calibration.worker import RequestSample, measure_contention, measure_worker
from marina.project import Project
from marina.server.hosts.table import HOSTS
from marina.shapes.auto import with_shapes
from marina.spec import Spec

DELAY_MS = 1  # of the server that is measured, if its host lets batches wait
QUEUE = 100_000  # so that no request is refused, as in the simulations
MAX_SIZES = 4  # of core groups that are measured


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
    sizes = group_sizes(cores)
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
    measured = measure_loads(server, endpoint, payloads, cores, ONE_WORKER, progress)
    worker_mb = server.resident_megabytes()
    probes.append(probe(artifact, cores))
    progress("the server with pauses between requests", 0, 1)
    idle_latencies = measure_pauses(endpoint, payloads[1])
    probes.append(probe(artifact, cores))
    if cores > 1:
        _archive(spec, server, ",".join(["1"] * cores))
        endpoint = server.serve(spec.name, host=host)
        measured = measured.beside(measure_loads(server, endpoint, payloads, 1, WORKER_A_CORE, progress))
        probes.append(probe(artifact, cores))
    progress("fitting", 0, 1)
    simulator = LoadSimulator(workers, sample, cores, contention, min(DELAY_MS, HOSTS[host].delays_ms[0]))
    idle: tuple[float, ...] = (0.0,)
    for _ in range(2):  # light loads have pauses too, so what pauses add is known only after a first fit
        fit = fit_server(measured, simulator.figures, idle)
        idle = idle_times(idle_latencies, simulator.paced(fit.server))
    server_costs = replace(fit.server, idle=idle)
    probe_ms = fmean(probes)
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
        server=server_costs,
        worker_mb=round(worker_mb, 1),
        error=round(fit.error, 4),
        probe_ms=round(probe_ms, 4),
        noise=round(max(abs(value / probe_ms - 1) for value in probes), 4),
        uncertainty=simulator.uncertainty(server_costs, measured.open_rounds),
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    return calibration, write_calibration(artifact, calibration)


def group_sizes(cores: int) -> list[int]:
    """The sizes of core groups to measure on so many cores: one core, which all plans need, and the largest others."""
    larger = sorted({cores, *(1 << power for power in range(1, 20) if 1 << power < cores)} - {1})
    return [1, *larger[1 - MAX_SIZES :]]


def _archive(spec: Spec, server: BenchmarkServer, groups: str) -> Path:
    """Pack the model with these core groups; returns its artifact."""
    rows = rows_of_text(spec)
    limits = {"max_instances": spec.serving.max_instances * rows, "max_tokens": spec.serving.max_tokens * rows}
    serving = spec.serving.model_copy(
        update={"batch_size": BATCH_SIZE, "batch_delay_ms": DELAY_MS, "queue_size": QUEUE, **limits}
    )
    return server.archive(spec.model_copy(update={"core_groups": groups, "serving": serving}))


def sample_of(
    instances: list[Instance], source: str, spec: Spec, artifact: Path
) -> tuple[RequestSample, dict[int, Payload]]:
    """The contents of requests with the tokens of their rows, and payloads by the instances of a request."""
    description = read_artifact(artifact)
    limit = max_sequence_length(description.shapes)
    tokens = [min(count, limit) for count in count_tokens(description, expand(spec, instances))]
    documents = documents_of(instances, spec.instance_fields)
    payloads = {count: Payload(bodies_of(documents, count), count, source) for count in INSTANCES}
    return RequestSample(documents, tokens), payloads
