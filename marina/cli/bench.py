"""`marina bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from marina.cli.options import EngineOption, JsonOption
from marina.console import print_error, print_json, progress_bar
from marina.errors import MarinaError
from marina.project import Project, find_project
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.bench.costs import Price
    from marina.bench.load import Load
    from marina.bench.measured import Window
    from marina.bench.result import Entry, Result
    from marina.bench.served import Served

BARE_S = 8.0


# the options that each way to measure takes; another one would be ignored in silence
REPORTS = {"out", "as_json"}
COSTS = {"instance", "price"}
TAKES = {
    "--report": {"report", *REPORTS},
    "--sweep": {"sweep", *COSTS, *REPORTS},
    "--table": {"table", "name", "engine", *COSTS, *REPORTS},
    "--bare": {"bare", "name", "engine", "texts", "seconds", *COSTS, *REPORTS},
}


def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The model.")] = None,
    connections: Annotated[
        int | None,
        typer.Option(
            min=1, help="Requests in flight (16); with --rate the most there may be (256).", show_default=False
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Open loop: requests a second, whatever the answers; latency counts from when each was due."
        ),
    ] = None,
    arrivals: Annotated[Literal["poisson", "constant"], typer.Option(help="With --rate: how they come.")] = "poisson",
    instances: Annotated[int, typer.Option(min=1, help="Texts in a request.")] = 1,
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Texts (.csv, .jsonl), a histogram of lengths (.json), or mix, the built-in one. "
            "Left out: the spec's examples, else mix.",
        ),
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="Ask over gRPC.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Measure this long. Left out: until it settles.")
    ] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Measure this many requests.")] = None,
    warm_up: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="At the start; does not count.")] = 2.0,
    window: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Length of a window.")] = 5.0,
    within: Annotated[
        float,
        typer.Option(min=0, metavar="PERCENT", help="Settled: three windows agree in throughput and p99 this well."),
    ] = 10.0,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Then a request is an error.")] = 30.0,
    generators: Annotated[int, typer.Option(min=1, help="Processes that send.")] = 1,
    bare: Annotated[bool, typer.Option("--bare", help="The model's graphs without a server.")] = False,
    url: Annotated[
        str | None, typer.Option(help="A server elsewhere: http://HOST:PORT. Left out: this project's own.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="MARINA_INFERENCE_TOKEN", help="Its inference token, with --url.")
    ] = None,
    sweep: Annotated[Path | None, typer.Option(metavar="FILE", help="Measure what bench.yaml lists instead.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make the reports of a stored result.json again.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Measure a table of the field: nlp-12x, ava, search or darwinbox; with NAME for a model of yours.",
        ),
    ] = None,
    engine: EngineOption = None,
    instance: Annotated[
        str | None, typer.Option(metavar="TYPE", help="For costs: the instance that this is, as inf2.xlarge.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="For costs: of an hour, instead of the known one.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="For reports. Left out: build/bench/...")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a served model: throughput, latency, errors, and where the time goes.

    Without --rate every connection sends when it has its answer (closed loop), which finds what a
    server can do. With --rate requests come as users do, whatever the server does (open loop),
    which finds what users see. Windows are repeated until the last three agree, or it says that
    they do not. Reports: a table, and result.json, result.csv and report.html with pictures.
    """
    from marina.bench.costs import price_of
    from marina.bench.result import Result, read_result

    project = find_project()
    chosen = [
        way
        for way, given in (("--report", report), ("--sweep", sweep), ("--table", table), ("--bare", bare or None))
        if given is not None
    ]
    if len(chosen) > 1 or (name is None and chosen in ([], ["--bare"])):
        raise MarinaError("name a model, or give --sweep FILE, --table TABLE or --report FILE; one of these")
    _check_options(context, chosen[0] if chosen else None)
    if report is not None:
        _finish(read_result(report), out or report.parent, as_json)
        return
    known_price = price_of(instance, price, project.root)
    if sweep is not None:
        _finish(_sweep(project, sweep, instance, price), out or _sweep_folder(project, sweep), as_json)
        return
    if table is not None:
        result = _table(project, table, name, engine, known_price)
        _finish(result, out or project.root / "build" / "bench" / result.kind, as_json)
        return
    assert name is not None
    load = _load(connections, rate, arrivals, warm_up, window, within / 100, seconds, requests, timeout, generators)
    if bare:
        entry = _bare(project, name, engine, texts, load)
    else:
        entry = _ask(_served(project, name, url, token, "grpc" if grpc else "rest"), project, texts, instances, load)
    title = f"{name}: {'bare graphs' if bare else load.describe()}"
    result = Result("bench", title, [entry], price=known_price)
    _finish(result, out or project.root / "build" / "bench" / "runs" / name, as_json)


def _check_options(context: typer.Context, way: str | None) -> None:
    """Refuse options that have no meaning together."""
    given = {
        name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    unused = given - TAKES[way] if way else given & {"engine"}
    if unused:
        options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
        told = ", ".join(sorted(options[name] for name in unused))
        raise MarinaError(
            f"{told} has no meaning {f'with {way}' if way else 'for a model that is served'}; leave it out"
        )


def _finish(result: Result, folder: Path, as_json: bool) -> None:
    from marina.bench.report.write import show, write_reports

    write_reports(result, folder)
    if as_json:
        print_json(result.as_json())
    else:
        show(result, folder)


def _load(
    connections: int | None,
    rate: float | None,
    arrivals: Literal["poisson", "constant"],
    warm_up: float,
    window: float,
    within: float,
    seconds: float | None,
    requests: int | None,
    timeout: float,
    generators: int,
) -> Load:
    from marina.bench.load import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Load

    if seconds and requests:
        raise MarinaError("--seconds and --requests both say how long; give one")
    return Load(
        connections=connections or (OPEN_CONNECTIONS if rate else CLOSED_CONNECTIONS),
        rate=rate,
        arrivals=arrivals,
        warm_up_s=warm_up,
        window_s=window,
        within=within,
        seconds=seconds,
        requests=requests,
        timeout_s=timeout,
        processes=generators,
    )


def _served(
    project: Project, name: str, url: str | None, token: str | None, protocol: Literal["rest", "grpc"]
) -> Served:
    from marina.bench.served import served_here, served_there

    if url is None:
        return served_here(project, name, protocol)
    spec = project.models / f"{name}.yaml"
    return served_there(url, name, protocol, token, read_spec(spec).task if spec.exists() else None)


def _ask(served: Served, project: Project, texts: str | None, instances: int, load: Load) -> Entry:
    from marina.bench.result import Entry
    from marina.bench.served import asked_how, check, measure_served
    from marina.bench.texts import read_asked

    asked = read_asked(texts or _examples(project, served.target.model), served.fields, instances)
    check(served, asked)
    with progress_bar(served.target.model) as progress:
        progress("warming up", 0, load.most_windows)

        def told(window: Window, done: int, most: int) -> None:
            tail = "no answer" if window.p99_ms is None else f"p99 {window.p99_ms:.1f} ms"
            progress(f"{window.throughput:.0f} instances/s, {tail}", done, most)

        measured = measure_served(served, asked, load, told)
    return Entry({**served.configuration, **asked_how(load, asked)}, [measured])


def _bare(project: Project, name: str, engine: str | None, texts: str | None, load: Load) -> Entry:
    from handlers.worker.artifact import read_artifact
    from marina.bench.bare import bare_graphs, measured_bare
    from marina.bench.result import Entry
    from marina.bench.texts import read_instances
    from marina.compiler import compile_model
    from marina.tasks import TASKS

    spec = read_spec(project.models / f"{name}.yaml", {"engine": engine} if engine else None)
    source = texts or _examples(project, name)
    seconds = load.seconds or BARE_S
    with progress_bar(name) as progress:
        artifact = compile_model(spec, project, progress).folder
        progress("running the graphs", 0, 1)
        with bare_graphs(spec, artifact, read_instances(source, TASKS[spec.task].fields)) as graphs:
            measured = measured_bare(graphs.run(seconds), seconds)
    described = read_artifact(artifact)
    configuration = {
        "model": name,
        "engine": described.engine,
        "precision": described.precision,
        "shapes": [str(shape) for shape in described.shapes],
        "core_groups": spec.core_groups,
        "workers": spec.workers,
        "protocol": "none: bare graphs",
    }
    return Entry(configuration, [measured])


def _sweep(project: Project, path: Path, instance: str | None, price: float | None) -> Result:
    from marina.bench.costs import price_of
    from marina.bench.journal import Journal
    from marina.bench.result import Result
    from marina.bench.stage import stage
    from marina.bench.sweep import read_sweep, run_sweep, settings_of

    asked = read_sweep(path)
    settings = settings_of(asked, project)
    known = price_of(instance or asked.instance, price if price is not None else asked.price, project.root)
    journal = Journal(_sweep_folder(project, path) / "rounds.jsonl")
    with progress_bar(path.stem) as progress, stage(project, "stage", progress) as own:
        entries, failures = run_sweep(asked, settings, own, journal, progress)
    for failure in failures:
        print_error(failure)
    if not entries:
        raise MarinaError(f"{path}: nothing could be measured")
    return Result(
        "sweep",
        f"{path.stem}: {asked.model}",
        entries,
        known,
        asked.baseline,
        {"failures": failures} if failures else {},
    )


def _table(project: Project, table: str, name: str | None, engine: str | None, price: Price | None) -> Result:
    from marina.bench.stage import stage
    from marina.bench.tables import table_kind

    kind = table_kind(table)
    with progress_bar(table) as progress, stage(project, "stage", progress) as own:
        return kind.measure(own, project, name, engine, price, progress)


def _sweep_folder(project: Project, path: Path) -> Path:
    return project.root / "build" / "bench" / "sweeps" / path.stem


def _examples(project: Project, name: str) -> str:
    """The spec's own texts, or the built-in mix."""
    from marina.bench.texts import MIX

    path = project.models / f"{name}.yaml"
    examples = read_spec(path).examples if path.exists() else None
    return str(project.root / examples) if examples else MIX
