"""Measures the peers and Marina in interleaved rounds, one at a time: `make bench-peers`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import requests

from benchmarks.peers import agreement
from benchmarks.peers.process import HERE, install, running, texts_file
from benchmarks.peers.settings import EMBEDDINGS, ENTITIES, INTENTS, Format, Peer, peers, request_bodies
from benchmarks.processes import cpu_seconds, megabytes
from benchmarks.usual.pack import pack_usual
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.tasks import TASKS as KNOWN
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, read_instances
from marina.bench.load.profile import Load, Target
from marina.bench.load.runner import measure as run_load
from marina.bench.report.results import Configuration, Result
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import MARINA, USUAL
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.compiler.hugging_face import find_source
from marina.errors import MarinaError
from marina.project import Project
from marina.server.models import require_running
from marina.server.run.state import DIRECT, TORCHSERVE
from marina.shapes.auto import PRICE
from marina.spec import Spec, make_spec

KIND = "table-peers"
MODELS = {INTENTS: "ava-intent", EMBEDDINGS: "resume-search", ENTITIES: "resume-ner"}
HOSTS = {DIRECT: "direct", TORCHSERVE: "TorchServe"}
LOADS = ((1, 1), (1, 16), (1, 32), (1, 64), (32, 4))  # texts in a request, connections
ROUNDS, WARM_UP_S, SECONDS = 3, 1.0, 2.5
FIRST_S = 2.0  # after a start, under the first load; not counted
USUAL_TOKENS, USUAL_BATCH = 128, 6
MAX_LENGTH = 128  # of Marina's shapes: the longest text


class Subject(NamedTuple):
    """A model that all serve.

    Attributes:
        task, name: its task, and its name in the project.
        source: folder of its weights.
        texts: texts of every second example, for agreement; those between them are for quantization.
        original: the answers to them of the original model.
    """

    task: str
    name: str
    source: Path
    texts: list[str]
    original: list[Any]


class Served(NamedTuple):
    """A running server: where its requests go, its process, its known configuration, and the format of requests."""

    target: Target
    pid: int
    configuration: Configuration
    format: Format


class Record(NamedTuple):
    """What is noted beside the measurements, in `Result.more`.

    Attributes:
        agreements: agreement with the original, by `key_of`.
        costs: by `key_of`, of each load of each round: its texts in a request and its connections, MB after it, and CPU
            seconds per 1,000 texts.
    """

    agreements: dict[str, float]
    costs: dict[str, list[tuple[int, int, float, float]]]


def measure(job: TableJob) -> Result:
    """Measure the table, for the three demonstration models.

    Raises:
        MarinaError: a peer cannot be installed, a demonstration model is missing, or another model is named.
    """
    if job.name:
        raise MarinaError("other servers are compared with the demonstration models alone; leave the name out")
    cores = len(cpu_cores())
    folder = job.project.root / "build" / "bench" / "peers"
    settings = peers(cores)
    packages = sorted({peer.packages for peer in settings})
    for index, name in enumerate(packages):
        job.progress(f"installing {name}", index, len(packages))
        install(name, folder)
    record, strategies = Record({}, {}), []
    for model in MODELS.values():
        job.progress(f"asking the original {model}", 0, 1)
        spec = job.spec(model)
        subject = _subject(spec, job.project, folder)
        strategies += [
            _peer_strategy(peer, subject, folder, cores, record) for peer in settings if peer.task == subject.task
        ]
        strategies += _marina_strategies(spec, subject, job, cores, record)
        if spec.task == INTENTS:
            strategies.append(_usual_strategy(subject, job, record))
    entries, failures = measure_rounds(strategies, ROUNDS, job.progress, leave_out_failures=True)
    if not entries:
        raise MarinaError(f"no peer could be measured; {failures[0]}")
    quotes = list(dict.fromkeys(f"{peer.name}: {peer.quote}" for peer in settings))
    versions = {name: (HERE / f"{name}.txt").read_text() for name in packages}
    more = {"failures": failures, "quotes": quotes, "packages": versions, **record._asdict()}
    return Result(KIND, "Marina and other servers", entries, job.price, more=more)


def _subject(spec: Spec, project: Project, folder: Path) -> Subject:
    """What all serve; the texts for quantization are written into the folder."""
    source = find_source(spec.source, project.root)
    examples = read_instances(str(project.root / str(spec.examples)), KNOWN[spec.task].fields)
    texts = [example.text for example in examples if len(example.text) < agreement.CHARACTERS]
    (folder / texts_file(spec.task)).write_text(json.dumps([*texts[1::2], *mixed_texts(seed=1)]))
    compared = texts[::2][: agreement.TEXTS]
    return Subject(spec.task, spec.name, source, compared, agreement.original_answers(spec.task, source, compared))


def _peer_strategy(peer: Peer, subject: Subject, folder: Path, cores: int, record: Record) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        with running(peer, subject.source, folder, cores) as server:
            served = Served(server.target, server.pid, Configuration(protocol="rest"), peer.format)
            yield _measure_of(served, subject, configuration, workloads, record)

    configuration = Configuration(
        model=subject.name, strategy=peer.name, precision=peer.precision, workers=peer.workers
    )
    workloads = [_workload(peer.format, *load) for load in LOADS]
    return Strategy(f"{peer.name}, {subject.name}", configuration, workloads, start)


def _marina_strategies(base: Spec, subject: Subject, job: TableJob, cores: int, record: Record) -> list[Strategy]:
    """Marina on both of its hosts, with one worker for all cores and with one for each, in int8 if it may."""
    strategies = []
    for workers in sorted({1, cores}):
        groups = str(cores) if workers == 1 else ",".join(["1"] * cores)
        spec = _marina_spec(base, groups, job)
        for host, name in HOSTS.items():
            configuration = Configuration(model=subject.name, strategy=f"{MARINA}, {name}", workers=workers)
            strategies.append(_archive_strategy(spec, host, subject, configuration, LOADS, job, record))
    return strategies


def _usual_strategy(subject: Subject, job: TableJob, record: Record) -> Strategy:
    """TorchServe with its usual handler, which takes one text a request."""
    work = job.server.project.root / "usual"
    pack_usual(subject.source, "usual", job.server.project.model_store, work, USUAL_TOKENS, USUAL_BATCH)
    configuration = Configuration(model=subject.name, strategy=USUAL, precision="f32", workers=1)
    loads = [(texts, connections) for texts, connections in LOADS if texts == 1]
    return _archive_strategy("usual", TORCHSERVE, subject, configuration, loads, job, record)


def _archive_strategy(
    archive: Spec | str,
    host: str,
    subject: Subject,
    configuration: Configuration,
    loads: Sequence[tuple[int, int]],
    job: TableJob,
    record: Record,
) -> Strategy:
    """A model to compile and pack, or the name of an archive, on one of Marina's hosts."""
    workloads = [_workload("inputs", *load) for load in loads]

    @contextmanager
    def start() -> Iterator[Measure]:
        if isinstance(archive, Spec):
            job.server.archive(archive)
        name = archive.name if isinstance(archive, Spec) else archive
        endpoint = job.server.serve(name, host=host)
        try:
            state = require_running(job.server.project)
            served = Served(endpoint.target, state.pid, endpoint.configuration, "inputs")
            yield _measure_of(served, subject, configuration, workloads, record)
        finally:
            job.server.unserve()

    return Strategy(f"{configuration.strategy}, {subject.name}", configuration, workloads, start)


def _marina_spec(base: Spec, groups: str, job: TableJob) -> Spec:
    """The model with shapes for texts like those that are sent."""
    fields = {
        **base.model_dump(exclude_defaults=True),
        "name": f"{base.name}-{groups.count(',') + 1}",
        "precision": "auto",
        "core_groups": groups,
        "shapes": {"exact": [f"1x{MAX_LENGTH}"]},
    }
    shapes = advice_for_mix(job, make_spec(fields), None, PRICE).shapes
    return make_spec({**fields, "shapes": {"exact": [str(shape) for shape in shapes]}})


def _workload(form: Format, texts: int, connections: int) -> LoadCase:
    bodies = request_bodies(form, mixed_texts(), texts)
    load = Load(connections, warm_up_s=WARM_UP_S, window_s=SECONDS, seconds=SECONDS)
    return LoadCase(load, Payload(bodies, texts, MIX_NAME))


def _measure_of(
    served: Served, subject: Subject, configuration: Configuration, workloads: Sequence[LoadCase], record: Record
) -> Measure:
    """Compare the answers, once, put a load on the server that is not counted, and return what measures it."""
    key = key_of(configuration)
    if key not in record.agreements:
        bodies = request_bodies(served.format, subject.texts, 1)
        try:
            answers = agreement.served_answers(subject.task, served.target, served.format, bodies)
            record.agreements[key] = agreement.agreement(subject.task, answers, subject.original)
        except (requests.RequestException, LookupError, TypeError, ValueError) as error:
            raise MarinaError(f"it does not answer as it should: {error!r}") from error
    load, payload = max(workloads, key=lambda workload: workload.load.connections)
    run_load(served.target, payload.bodies, payload.instances, replace(load, seconds=FIRST_S))
    costs = record.costs.setdefault(key, [])

    def measure(workload: LoadCase) -> tuple[Configuration, Measurement]:
        load, payload = workload
        cpu_s = cpu_seconds(served.pid)
        measurement = run_load(served.target, payload.bodies, payload.instances, load)
        cpu_s = cpu_seconds(served.pid) - cpu_s
        if measurement.throughput:
            texts = measurement.throughput * (load.warm_up_s + measurement.seconds)
            costs.append((payload.instances, load.connections, megabytes(served.pid), 1000 * cpu_s / texts))
        return served.configuration.with_load_of(workload), measurement

    return measure


def key_of(configuration: Configuration) -> str:
    """The name of a server and model in `Result.more`."""
    return f"{configuration.model}: {configuration.strategy}, {configuration.workers}"
