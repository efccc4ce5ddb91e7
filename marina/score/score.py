"""Scores in bulk: the rows of a place are answered into another."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from handlers.worker.engines import engine_module
from handlers.worker.unpack import unpack
from handlers.worker.values import Json
from marina.archive.read import fingerprint_of
from marina.errors import MarinaError
from marina.project import Project
from marina.score.job import describe
from marina.score.layout import AnswerOptions, Layout, layout_of
from marina.score.model import Unpacked, described, group_size, groups_of, read_unpacked
from marina.score.on_ray import NEURON_CORES, Actors, RayPool
from marina.score.places import open_sink, open_source
from marina.score.processes import LocalPool
from marina.score.remote import Server
from marina.score.run import Pool, run
from marina.score.spec import JobSpec
from marina.score.values import Counts, Read, RowSource, Sink, Writer
from marina.score.work import ProcessSetup, open_scorer

# arguments: what became of the rows that were done before this run, and of those of this run
Report = Callable[[Counts, Counts], None]


class Where(NamedTuple):
    """Where rows are answered: on this machine, unless something else is given.

    Attributes:
        url: the inference API of a server that answers in place of the archive.
        token: its inference token.
        ray: the address of a Ray cluster, or "local".
    """

    url: str | None = None
    token: str | None = None
    ray: str | None = None


HERE = Where()


class BulkJob(NamedTuple):
    """A job that can be run.

    Attributes:
        archive: the path of the archive.
        unpacked: the same, unpacked.
        model: the model, if the archive is a bundle.
        layout: which columns are read, carried along and written.
        source: the rows.
        groups: the sizes of the core groups, each of one process.
        spec: what was asked for.
        where: where the rows are answered.
    """

    archive: Path
    unpacked: Unpacked
    model: str | None
    layout: Layout
    source: RowSource
    groups: tuple[int, ...]
    spec: JobSpec
    where: Where


class Scored(NamedTuple):
    """How a run ended.

    Attributes:
        total: what became of all rows that are done, by this run or an earlier one.
        here: the same for this run alone.
        seconds: of this run, without those for loading the model.
        complete: whether all rows are done.
        output: where the answers are.
    """

    total: Counts
    here: Counts
    seconds: float
    complete: bool
    output: str


def prepare(spec: JobSpec, project: Project, where: Where = HERE) -> BulkJob:
    """Open what a job needs, and check all that can be checked before the model is loaded.

    Args:
        spec: the job.
        project: whose archives, and where they are unpacked.
        where: where the rows are answered.

    Raises:
        MarinaError, WorkerError: something is missing, damaged, or does not fit.
    """
    if spec.output.table and (spec.output.url, spec.output.table) == (spec.input.url, spec.input.table):
        raise MarinaError("the answers cannot go into the table that is read", "name another table with --to")
    name, _, member = spec.model.partition(":")
    archive = project.model_store / f"{name}.mar"
    if not archive.exists():
        known = ", ".join(sorted(path.stem for path in project.model_store.glob("*.mar"))) or "none"
        raise MarinaError(f"no archive {archive}; there are: {known}", f"make it with marina archive {name}")
    folder = project.unpacked / f"{name}-{hashlib.sha256(str(fingerprint_of(archive)).encode()).hexdigest()[:12]}"
    unpack(archive, folder)
    unpacked = read_unpacked(folder, member or None)
    asked = AnswerOptions(spec.columns, spec.parameters, spec.keep, spec.prefix)
    layout = layout_of(*described(unpacked), asked)
    source = open_source(spec.input, layout.texts, spec.limit)
    source = source.select(layout.needed(source.schema))
    # a server has its own core groups, and one process sends it all that it can take
    groups = (1,) if where.url or where.ray else groups_of(unpacked, spec.core_groups)
    return BulkJob(archive, unpacked, member or None, layout, source, groups, spec, where)


def score(job: BulkJob, restart: bool, report: Report) -> Scored:
    """Run a job, or go on with it where it was ended.

    Args:
        job: from `prepare`.
        restart: whether to remove answers that are there, and begin again.
        report: called after every shard.

    Raises:
        MarinaError: the job cannot go on; what is done stays.
    """
    sink = open_sink(job.spec.output, job.source.key)
    try:
        if restart:
            sink.clear()
        begun = sink.begin(_description(job), job.layout.schema(job.source.schema))
        before = sink.done()
        if begun and sink.complete():
            sink.finish()
            return Scored(before, Counts(), 0.0, True, sink.name)
        return _run(job, sink, begun, before, report)
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
        rows: how many rows at most.
    """
    shards = job.source.shards(lambda _: rows)
    scorer = open_scorer(setup_of(job, None))
    read = job.source.read(shards[0]) if shards else Read(job.source.schema.empty_table(), {})
    started = time.perf_counter()
    computed = scorer.compute(scorer.encode(read))
    answers, errors = scorer.answer(computed)
    seconds = time.perf_counter() - started
    counts = Counts(len(answers), errors, computed.tokens, computed.computed)
    return Sampled(answers, counts, len(answers) * len(job.groups) / seconds)


def setup_of(job: BulkJob, writer: Writer | None) -> ProcessSetup:
    """What a process of a job needs."""
    groups = ",".join(map(str, job.groups))
    where = job.where
    server = Server(where.url, where.token, job.spec.model) if where.url else None
    return ProcessSetup(job.unpacked.folder, job.model, job.layout.asked, groups, server, job.source, writer)


def _description(job: BulkJob) -> dict[str, Json]:
    spec = job.spec
    return describe(job.archive, job.model, job.layout.asked, job.source, spec.output.format, spec.limit)


def _pool(job: BulkJob, writer: Writer) -> Pool:
    setup = setup_of(job, writer)
    if job.where.ray is None:
        return LocalPool(setup, len(job.groups))
    contents = job.unpacked.contents
    exclusive = engine_module(contents.engine).CORES.exclusive
    size = group_size(job.unpacked, job.spec.core_groups)
    actors = Actors(job.archive, contents.engine, size, NEURON_CORES if exclusive else "CPU")
    return RayPool(setup, actors, job.where.ray)


def _run(job: BulkJob, sink: Sink, begun: bool, before: Counts, report: Report) -> Scored:
    if not job.source.rows():
        sink.plan([])
        sink.finish()
        return Scored(Counts(), Counts(), 0.0, True, sink.name)
    here = Counts()
    report(before, here)

    def note(counts: Counts) -> None:
        nonlocal here
        here = counts
        report(before, counts)

    complete, seconds = run(_pool(job, sink.writer), job.source, sink, begun, note)
    total = sink.done()
    if complete:
        sink.finish()
    return Scored(total, here, seconds, complete, sink.name)
