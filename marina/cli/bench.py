"""`marina bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from marina.cli.options import EngineOption, JsonOption
from marina.console import print_error, print_json, progress_bar
from marina.errors import MarinaError
from marina.project import find_project
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.bench.load import Load
    from marina.bench.result import Result

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
    from marina.bench import run
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
    builds = project.root / "build" / "bench"
    if report is not None:
        _finish(read_result(report), out or report.parent, as_json)
    elif sweep is not None:
        kept = builds / "sweeps" / sweep.stem
        with progress_bar(sweep.stem) as progress:
            result = run.bench_sweep(project, sweep, kept, instance, price, progress)
        for failure in result.more.get("failures", ()):
            print_error(failure)
        _finish(result, out or kept, as_json)
    elif table is not None:
        known = price_of(instance, price, project.root)
        with progress_bar(table) as progress:
            result = run.bench_table(project, table, name, engine, known, progress)
        _finish(result, out or builds / result.kind, as_json)
    elif name is not None:
        known = price_of(instance, price, project.root)
        load = _load(connections, rate, arrivals, warm_up, window, within / 100, seconds, requests, timeout, generators)
        with progress_bar(name) as progress:
            if bare:
                spec = read_spec(project.models / f"{name}.yaml", {"engine": engine} if engine else None)
                entry = run.bench_bare(project, spec, texts, seconds or BARE_S, progress)
            else:
                served = run.find_served(project, name, url, token, "grpc" if grpc else "rest")
                entry = run.bench_served(project, served, texts, instances, load, progress)
        title = f"{name}: {'bare graphs' if bare else load.describe()}"
        _finish(Result("bench", title, [entry], known), out or builds / "runs" / name, as_json)


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
