"""Scores in bulk: the rows of a place are answered into another."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from handlers.worker.archive.unpack import unpack
from handlers.worker.engines import engine_module
from handlers.worker.values import Json
from marina.archive.read import fingerprint_of
from marina.archive.unpacked import Unpacked, artifact_and_settings, core_group_sizes, cores_per_process, read_unpacked
from marina.errors import MarinaError
from marina.project import Project
from marina.score.layout import AnswerOptions, Layout, layout_of
from marina.score.on_ray import NEURON_CORES, Actors, RayPool
from marina.score.places import is_file_url, open_sink, open_source
from marina.score.places.files import FileSource
from marina.score.processes import LocalPool
from marina.score.remote import Server
from marina.score.run import Pool, run
from marina.score.spec import JobSpec
from marina.score.values import Counts, Read, RowSource, Sink, Writer
from marina.score.work import ProcessSetup, open_scorer

# arguments: the counts of the rows that were done before this run, and of the rows of this run
Report = Callable[[Counts, Counts], None]


class Backend(NamedTuple):
    """Where rows are answered: on this machine, unless a server or a Ray cluster is given.

    Attributes:
        url: the inference API of a server that answers in place of the archive.
        token: its inference token.
        ray: the address of a Ray cluster, or "local".
    """

    url: str | None = None
    token: str | None = None
    ray: str | None = None


THIS_MACHINE = Backend()


class BulkJob(NamedTuple):
    """A job that can be run.

    Attributes:
        archive: the path of the archive.
        unpacked: the same, unpacked.
        model: the model, if the archive is a bundle.
        layout: which columns are read, carried along and written.
        source: the rows.
        core_groups: the sizes of the core groups, each of one process.
        spec: the spec of the job.
        backend: where the rows are answered.
    """

    archive: Path
    unpacked: Unpacked
    model: str | None
    layout: Layout
    source: RowSource
    core_groups: tuple[int, ...]
    spec: JobSpec
    backend: Backend


class Scored(NamedTuple):
    """How a run ended.

    Attributes:
        total: the counts of all rows that are done, by this run or an earlier one.
        this_run: the counts of this run alone.
        seconds: the seconds of this run, without loading the model.
        complete: whether all rows are done.
        output: where the answers are.
    """

    total: Counts
    this_run: Counts
    seconds: float
    complete: bool
    output: str


def prepare(spec: JobSpec, project: Project, backend: Backend = THIS_MACHINE) -> BulkJob:
    """Open what a job needs, and check all that can be checked before the model is loaded.

    Args:
        spec: the job.
        project: the project with the archives, and the folder in which they are unpacked.
        backend: where the rows are answered.

    Raises:
        MarinaError, WorkerError: something is missing, damaged, or does not fit.
    """
    if spec.output.table and (spec.output.url, spec.output.table) == (spec.input.url, spec.input.table):
        raise MarinaError("the answers cannot go into the table that is read", "name another table with --to")
    name, _, member = spec.model.partition(":")
    archive = project.model_store / f"{name}.mar"
    if not archive.exists():
        archive_names = ", ".join(path.stem for path in project.archives()) or "none"
        raise MarinaError(f"no archive {archive}; there are: {archive_names}", f"make it with marina archive {name}")
    folder = project.unpacked / f"{name}-{hashlib.sha256(str(fingerprint_of(archive)).encode()).hexdigest()[:12]}"
    unpack(archive, folder)
    unpacked = read_unpacked(folder, member or None)
    options = AnswerOptions(spec.columns, spec.parameters, spec.keep, spec.prefix)
    layout = layout_of(*artifact_and_settings(unpacked), options)
    source = open_source(spec.input, layout.text_columns, spec.limit)
    if isinstance(source, FileSource) and is_file_url(spec.output.url) and source.is_below(spec.output.url):
        raise MarinaError("the answers cannot go into files that are read", "give another --output")
    source = source.select(layout.used_columns(source.schema))
    # a server has its own core groups, and one process sends it all that it can take
    core_groups = (1,) if backend.url or backend.ray else core_group_sizes(unpacked, spec.core_groups)
    return BulkJob(archive, unpacked, member or None, layout, source, core_groups, spec, backend)


def score(job: BulkJob, restart: bool, report: Report) -> Scored:
    """Run a job, or go on with it where it was ended.

    Args:
        job: from `prepare`.
        restart: whether to remove earlier answers, and begin again.
        report: called after every shard.

    Raises:
        MarinaError: the job cannot go on; what is done stays.
    """
    sink = open_sink(job.spec.output, job.source.key)
    try:
        if restart:
            sink.clear()
        planned = sink.begin(_description(job), job.layout.schema(job.source.schema))
        earlier = sink.done()
        if planned and sink.complete():
            sink.finish()
            return Scored(earlier, Counts(), 0.0, True, sink.name)
        return _run(job, sink, planned, earlier, report)
    finally:
        sink.close()


class Sampled(NamedTuple):
    """The answers to the first rows, their counts, and an estimate of the rows per second of all processes."""

    answers: pa.Table
    counts: Counts
    rows_per_s: float


def sample(job: BulkJob, rows: int) -> Sampled:
    """Answer the first rows in this process, and write nothing.

    Args:
        job: from `prepare`.
        rows: the row limit.
    """
    shards = job.source.shards(lambda _: rows)
    scorer = open_scorer(setup_of(job, None))
    read = job.source.read(shards[0]) if shards else Read(job.source.schema.empty_table(), {})
    started = time.perf_counter()
    answers, counts = scorer.answer(scorer.compute(scorer.encode(read)))
    seconds = time.perf_counter() - started
    return Sampled(answers, counts, len(answers) * len(job.core_groups) / seconds)


def setup_of(job: BulkJob, writer: Writer | None) -> ProcessSetup:
    """The setup of the processes of a job."""
    core_groups = ",".join(map(str, job.core_groups))
    backend = job.backend
    server = Server(backend.url, backend.token, job.spec.model) if backend.url else None
    return ProcessSetup(job.unpacked.folder, job.model, job.layout.options, core_groups, server, job.source, writer)


def _description(job: BulkJob) -> dict[str, Json]:
    """What decides the answers of a job, as JSON; `PART_NAMES` of marina/score/job.py has the names for people."""
    description = {
        "archive": fingerprint_of(job.archive),
        "model": job.model,
        "asked": vars(job.layout.options),
        "format": job.spec.output.format,
        "limit": job.spec.limit,
        "source": job.source.state(),
    }
    document: dict[str, Json] = json.loads(json.dumps(description))
    return document


def _pool(job: BulkJob, writer: Writer) -> Pool:
    setup = setup_of(job, writer)
    if job.backend.ray is None:
        return LocalPool(setup, len(job.core_groups))
    contents = job.unpacked.contents
    exclusive = engine_module(contents.engine).CORES.exclusive
    cores = cores_per_process(job.unpacked, job.spec.core_groups)
    actors = Actors(job.archive, contents.engine, cores, NEURON_CORES if exclusive else "CPU")
    return RayPool(setup, actors, job.backend.ray)


def _run(job: BulkJob, sink: Sink, planned: bool, earlier: Counts, report: Report) -> Scored:
    if not job.source.rows():
        sink.plan([])
        sink.finish()
        return Scored(Counts(), Counts(), 0.0, True, sink.name)
    this_run = Counts()
    report(earlier, this_run)

    def report_run(counts: Counts) -> None:
        nonlocal this_run
        this_run = counts
        report(earlier, counts)

    complete, seconds = run(_pool(job, sink.writer), job.source, sink, planned, report_run)
    total = sink.done()
    if complete:
        sink.finish()
    return Scored(total, this_run, seconds, complete, sink.name)
