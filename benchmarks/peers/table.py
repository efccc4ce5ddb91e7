"""Measures the peers and Marina in interleaved rounds, one at a time: `make bench-peers`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import requests

from benchmarks.peers import agreement
from benchmarks.peers.process import install, running, texts_file
from benchmarks.peers.settings import EMBEDDINGS, ENTITIES, INTENTS, TASKS, Format, Peer, peers
from benchmarks.processes import cpu_seconds, megabytes
from benchmarks.usual.pack import pack_usual
from handlers.worker.placement.discovery import cpu_cores
from handlers.worker.tasks import TASKS as KNOWN
from marina.bench.load.measurement import Measurement
from marina.bench.load.mix import mixed_texts
from marina.bench.load.payload import MIX_NAME, LoadCase, Payload, bodies_of, read_instances
from marina.bench.load.profile import Load, Target
from marina.bench.report.figures import Figures, figures_of, throughput_ratio
from marina.bench.report.results import Configuration, Entry, Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number
from marina.bench.server.endpoint import Endpoint, measure_endpoint
from marina.bench.sweep.rounds import Measure, Strategy, measure_rounds
from marina.bench.sweep.strategies import MARINA, USUAL, served_strategy
from marina.bench.tables.job import TableJob, advice_for_mix
from marina.compiler.hugging_face import find_source
from marina.drawing import MARINA as MARINA_COLOUR
from marina.drawing import PEER, name_bars, new_figure, svg_of
from marina.errors import MarinaError
from marina.project import Project
from marina.server.models import require_running
from marina.spec import Spec, make_spec

KIND = "table-peers"
MODELS = {INTENTS: "ava-intent", EMBEDDINGS: "resume-search", ENTITIES: "resume-ner"}
HOSTS = {"direct": "direct", "torchserve": "TorchServe"}
LOADS = ((1, 1), (1, 16), (1, 32), (1, 64), (32, 4))  # texts in a request, connections
ROUNDS, WARM_UP_S, SECONDS = 2, 1.0, 3.0
USUAL_TOKENS, USUAL_BATCH = 128, 6
MAX_LENGTH, PRICE = 128, 0.01  # of Marina's shapes: the longest text, and what `marina shapes` takes a graph to cost


class Subject(NamedTuple):
    """A model that all serve.

    Attributes:
        task, name: its task, and its name in the project.
        source: folder of its weights.
        texts: texts of its examples, for agreement.
        original: the answers to them of the original model.
    """

    task: str
    name: str
    source: Path
    texts: list[str]
    original: list[Any]


class Record(NamedTuple):
    """What is noted beside the measurements, in `Result.more`.

    Attributes:
        agreements: agreement with the original, by `_key`.
        costs: by `_key`, of each load of each round: MB after it, and CPU seconds per 1,000 texts.
    """

    agreements: dict[str, float]
    costs: dict[str, list[tuple[float, float]]]


def measure(job: TableJob) -> Result:
    """Measure the table for the three demonstration models, or for a model of the user's with one of their tasks.

    Raises:
        MarinaError: a peer cannot be installed, or a model is missing or has another task.
    """
    cores = len(cpu_cores())
    folder = job.project.root / "build" / "bench" / "peers"
    specs = [job.spec(name) for name in ([job.name] if job.name else MODELS.values())]
    for spec in specs:
        if spec.task not in TASKS:
            raise MarinaError(f"{spec.name}: peers are compared for {', '.join(TASKS)}, and not for {spec.task}")
    settings = [peer for peer in peers(cores) if peer.task in {spec.task for spec in specs}]
    packages = sorted({peer.packages for peer in settings})
    for index, name in enumerate(packages):
        job.progress(f"installing {name}", index, len(packages))
        install(name, folder)
    record, strategies = Record({}, {}), []
    for spec in specs:
        job.progress(f"asking the original {spec.name}", 0, 1)
        subject = _subject(spec, job.project)
        (folder / texts_file(spec.task)).write_text(json.dumps(subject.texts + list(mixed_texts(seed=1))))
        strategies += [
            _peer_strategy(peer, subject, folder, cores, record) for peer in settings if peer.task == subject.task
        ]
        strategies += _marina_strategies(spec, subject, job, cores, record)
        if spec.task == INTENTS:
            strategies.append(_usual_strategy(subject, job))
    entries, failures = measure_rounds(strategies, ROUNDS, job.progress, leave_out_failures=True)
    if not entries:
        raise MarinaError(f"no peer could be measured; {failures[0]}")
    quotes = list(dict.fromkeys(f"{peer.name}: {peer.quote}" for peer in settings))
    more = {"failures": failures, "quotes": quotes, **record._asdict()}
    return Result(KIND, "Marina and other servers", entries, job.price, more=more)


def _subject(spec: Spec, project: Project) -> Subject:
    source = find_source(spec.source, project.root)
    if not spec.examples:
        raise MarinaError(f"{spec.name} has no examples, by which answers are compared")
    instances = read_instances(str(project.root / spec.examples), KNOWN[spec.task].fields)
    texts = [instance.text for instance in instances if len(instance.text) < agreement.CHARACTERS][: agreement.TEXTS]
    return Subject(spec.task, spec.name, source, texts, agreement.original_answers(spec.task, source, texts))


def _peer_strategy(peer: Peer, subject: Subject, folder: Path, cores: int, record: Record) -> Strategy:
    @contextmanager
    def start() -> Iterator[Measure]:
        with running(peer, subject.source, folder, cores) as server:
            endpoint = Endpoint(server.target, Configuration(protocol="rest"))
            key = _key(configuration)
            _compare(subject, server.target, peer.format, peer.bodies(subject.texts, 1), key, record)
            yield partial(_measure, endpoint, server.pid, record.costs.setdefault(key, []))

    configuration = Configuration(
        model=subject.name, strategy=peer.name, precision=peer.precision, workers=peer.workers
    )
    workloads = [_workload(peer.bodies(mixed_texts(), texts), texts, connections) for texts, connections in LOADS]
    return Strategy(f"{peer.name}, {subject.name}", configuration, workloads, start)


def _usual_strategy(subject: Subject, job: TableJob) -> Strategy:
    """TorchServe with its usual handler, which takes one text a request."""
    pack_usual(
        subject.source,
        "usual",
        job.server.project.model_store,
        job.server.project.root / "usual",
        USUAL_TOKENS,
        USUAL_BATCH,
    )
    configuration = Configuration(model=subject.name, strategy=USUAL, precision="f32", workers=1)
    bodies = bodies_of(list(mixed_texts()), 1)
    workloads = [_workload(bodies, texts, connections) for texts, connections in LOADS if texts == 1]
    return served_strategy(job.server, f"{USUAL}, {subject.name}", configuration, "usual", workloads)


def _marina_strategies(base: Spec, subject: Subject, job: TableJob, cores: int, record: Record) -> list[Strategy]:
    """Marina on both of its hosts, with one worker for all cores and with one for each, in int8 if it may."""
    workloads = [_workload(bodies_of(list(mixed_texts()), texts), texts, connections) for texts, connections in LOADS]
    strategies = []
    for workers in sorted({1, cores}):
        groups = str(cores) if workers == 1 else ",".join(["1"] * cores)
        spec = _marina_spec(base, groups, job)
        for host, name in HOSTS.items():
            configuration = Configuration(model=subject.name, strategy=f"{MARINA}, {name}", workers=workers)

            @contextmanager
            def start(
                spec: Spec = spec, host: str = host, configuration: Configuration = configuration
            ) -> Iterator[Measure]:
                job.server.archive(spec)
                endpoint = job.server.serve(spec.name, host=host)
                state = require_running(job.server.project)
                key = _key(configuration)
                _compare(subject, endpoint.target, "inputs", bodies_of(subject.texts, 1), key, record)
                yield partial(_measure, endpoint, state.pid, record.costs.setdefault(key, []))
                job.server.unserve()

            strategies.append(Strategy(f"{MARINA}, {name}, {spec.name}", configuration, workloads, start))
    return strategies


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


def _workload(bodies: list[bytes], texts: int, connections: int) -> LoadCase:
    load = Load(connections, warm_up_s=WARM_UP_S, window_s=SECONDS, seconds=SECONDS)
    return LoadCase(load, Payload(bodies, texts, MIX_NAME))


def _compare(subject: Subject, target: Target, form: Format, bodies: Sequence[bytes], key: str, record: Record) -> None:
    if key in record.agreements:
        return
    try:
        answers = agreement.served_answers(subject.task, target, form, bodies)
    except (requests.RequestException, LookupError, TypeError, ValueError) as error:
        raise MarinaError(f"it does not answer as it should: {error!r}") from error
    record.agreements[key] = agreement.agreement(subject.task, answers, subject.original)


def _measure(
    endpoint: Endpoint, pid: int, costs: list[tuple[float, float]], workload: LoadCase
) -> tuple[Configuration, Measurement]:
    start, cpu_s = time.monotonic(), cpu_seconds(pid)
    measurement = measure_endpoint(endpoint, workload)
    cores = (cpu_seconds(pid) - cpu_s) / (time.monotonic() - start)
    if measurement.throughput:
        costs.append((megabytes(pid), 1000 * cores / measurement.throughput))
    return endpoint.configuration.with_load_of(workload), measurement


def _key(configuration: Configuration) -> str:
    return f"{configuration.model}: {configuration.strategy}, {configuration.workers}"


def layout(result: Result) -> TableLayout:
    """For each model, a row for each server; then Marina against the best peer in int8, under each load."""
    tables = []
    for model in dict.fromkeys(str(entry.configuration.model) for entry in result.entries):
        figures = [figure for figure in figures_of(result) if figure.entry.configuration.model == model]
        task = next((task for task, name in MODELS.items() if name == model), "")
        tables.append(_model_table(model, agreement.NAMES.get(task, "agreement"), figures, result))
    notes = [
        "texts/s: one text a request with that many connections, and 32 texts a request with 4",
        "MB: proportional set size of the server with its workers after a load, the most of all; CPU s: of the server, "
        "for 1,000 texts one a request, at 64 connections",
        f"agreement: with the original in float32, on {agreement.TEXTS} of the model's examples",
        *warnings_of(result),
    ]
    return TableLayout([*tables, _ratio_table(result)], notes, _conclusion(result))


def _model_table(model: str, agreement_name: str, figures: list[Figures], result: Result) -> Table:
    rows = []
    by_server: dict[str, dict[tuple[int, int], Figures]] = {}
    for figure in figures:
        by_server.setdefault(_key(figure.entry.configuration), {})[_load(figure.entry)] = figure
    for key, loads in by_server.items():
        configuration = next(iter(loads.values())).entry.configuration
        costs = result.more["costs"].get(key, [])
        rows.append(
            [
                *(str(configuration.strategy), str(configuration.workers), str(configuration.precision)),
                *(number(loads[load].throughput.median, 0) if load in loads else "" for load in LOADS),
                *(number(loads[1, count].latency_ms.get(name), 1) for count in (1, 64) for name in ("p50", "p99")),
                number(max(cost[0] for cost in costs), 0) if costs else "",
                number(median(cost[1] for cost in costs), 1) if costs else "",
                number(result.more["agreements"].get(key), 3),
            ]
        )
    rows.sort(key=lambda row: -float(row[6]))
    columns = [
        *("server", "workers", "precision"),
        *(f"texts/s, {count}" for texts, count in LOADS if texts == 1),
        *("32 texts", "p50 ms, 1", "p99 ms, 1", "p50 ms, 64", "p99 ms, 64", "MB", "CPU s", agreement_name),
    ]
    return Table(columns, rows, len(columns) - 3, model)


def _ratio_table(result: Result) -> Table:
    """Marina's best setting against the best peer in int8, by medians; the ratio is within rounds."""
    rows = []
    for model in dict.fromkeys(str(entry.configuration.model) for entry in result.entries):
        for load in LOADS:
            marina, peer = best(result, model, load, marina=True), best(result, model, load, marina=False)
            if marina and peer:
                ratio = throughput_ratio(marina.entry.rounds, peer.entry.rounds)
                rows.append(
                    [
                        *(model, f"{load[0]} x {load[1]}", _name(marina), _name(peer)),
                        *(number(marina.throughput.median, 0), number(peer.throughput.median, 0)),
                        f"{ratio.median:.2f}x" if ratio else "",
                    ]
                )
    columns = ["model", "texts x connections", MARINA, "best peer in int8", "texts/s", "the peer's", "ratio"]
    return Table(columns, rows, 3, "Marina at its best against the best peer in int8")


def best(result: Result, model: str, load: tuple[int, int], marina: bool) -> Figures | None:
    """The fastest of Marina's settings, or of the peers' in int8, for a model under a load; None if there is none."""
    figures = [
        figure
        for figure in figures_of(result)
        if figure.entry.configuration.model == model
        and _load(figure.entry) == load
        and is_marina(figure.entry) == marina
        and (marina or figure.entry.configuration.precision == "int8")
    ]
    return max(figures, key=lambda figure: figure.throughput.median, default=None)


def is_marina(entry: Entry) -> bool:
    """Whether it is one of Marina's settings."""
    return str(entry.configuration.strategy).startswith(MARINA)


def _load(entry: Entry) -> tuple[int, int]:
    return entry.configuration.instances or 1, entry.configuration.connections or 0


def _name(figure: Figures) -> str:
    configuration = figure.entry.configuration
    return f"{str(configuration.strategy).removeprefix(f'{MARINA}, ')}, {configuration.workers}"


def _conclusion(result: Result) -> str:
    ratios = [float(row[-1].rstrip("x")) for row in _ratio_table(result).rows if row[-1]]
    if not ratios:
        return ""
    return (
        f"At its best, Marina answers {min(ratios):.1f} to {max(ratios):.1f} times as many texts as the best peer in "
        "int8, by model and load."
    )


def draw(result: Result) -> dict[str, bytes]:
    """Texts per second of each server at its best, of the first model with 32 connections, as bars."""
    model = str(result.entries[0].configuration.model)
    rates = rates_by_server(result, model, (1, 32))
    with new_figure(size=(9, 0.5 + 0.32 * len(rates))) as (plot, (axis,)):
        names = sorted(rates, key=rates.__getitem__, reverse=True)
        colours = [MARINA_COLOUR if name.startswith(MARINA) else PEER for name in names]
        bars = axis.barh(range(len(names)), [rates[name] for name in names], color=colours)
        axis.bar_label(bars, [number(rates[name], 0) for name in names], padding=4)
        axis.margins(x=0.1)
        axis.set_xlabel(f"texts per second, {model}, one per request, 32 connections")
        name_bars(axis, names)
        return {"throughput": svg_of(plot)}


def rates_by_server(result: Result, model: str, load: tuple[int, int]) -> dict[str, float]:
    """Texts per second of each server with its best number of workers, by its name and precision."""
    rates: dict[str, float] = {}
    for figure in figures_of(result):
        configuration = figure.entry.configuration
        if configuration.model == model and _load(figure.entry) == load:
            name = f"{configuration.strategy}, {configuration.precision}"
            rates[name] = max(rates.get(name, 0.0), figure.throughput.median)
    return rates
