"""`marina bench run | sweep | table | peers | report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from marina.cli.options import EngineOption, JsonOption
from marina.console import print_error, print_json, progress_bar, say
from marina.errors import MarinaError
from marina.project import find_project
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.bench.report.results import Result

BARE_S = 8.0
# the only options of `run` that --bare takes, and the one that nothing else takes
WITH_BARE = {"bare", "name", "engine", "texts", "seconds", "instance", "price", "out", "as_json"}
ONLY_BARE = {"engine"}

InstanceOption = Annotated[
    str | None, typer.Option(metavar="TYPE", help="For costs: the instance that this is, as inf2.xlarge.")
]
PriceOption = Annotated[
    float | None, typer.Option(min=0, metavar="USD", help="For costs: of an hour, instead of the known one.")
]
OutOption = Annotated[Path | None, typer.Option(metavar="FOLDER", help="For reports. Left out: build/bench/...")]

app = typer.Typer(
    name="bench",
    help="Measure throughput, latency, errors, and where the time goes. "
    "Reports: a table, and result.json, result.csv and report.html with pictures.",
    no_args_is_help=True,
)


@app.command()
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model.")],
    connections: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight (16); with --rate the most there may be (256).")
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
    grpc: Annotated[bool, typer.Option("--grpc", metavar="", help="Ask over gRPC.")] = False,
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
    bare: Annotated[bool, typer.Option("--bare", metavar="", help="The model's graphs without a server.")] = False,
    url: Annotated[
        str | None, typer.Option(help="A server elsewhere: http://HOST:PORT. Left out: this project's own.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="MARINA_INFERENCE_TOKEN", help="Its inference token, with --url.")
    ] = None,
    engine: EngineOption = None,
    instance: InstanceOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a served model under one load.

    Without --rate every connection sends when it has its answer (closed loop), which finds what a
    server can do. With --rate requests come as users do, whatever the server does (open loop),
    which finds what users see. Windows are repeated until the last three agree, or it says that
    they do not.
    """
    from marina.bench.load.profile import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Load
    from marina.bench.report.pricing import price_of
    from marina.bench.report.results import Result
    from marina.bench.sweep.single import find_endpoint, measure_bare, measure_load

    given = {one for one in context.params if getattr(context.get_parameter_source(one), "name", "") == "COMMANDLINE"}
    unused = given - WITH_BARE if bare else given & ONLY_BARE
    if unused:
        options = sorted(parameter.opts[0] for parameter in context.command.params if parameter.name in unused)
        where = "with --bare" if bare else "for a model that is served"
        raise MarinaError(f"{', '.join(options)} has no meaning {where}; leave it out")
    if seconds and requests:
        raise MarinaError("--seconds and --requests both say how long; give one")
    project = find_project()
    known = price_of(instance, price, project.root)
    load = Load(
        connections=connections or (OPEN_CONNECTIONS if rate else CLOSED_CONNECTIONS),
        rate=rate,
        arrivals=arrivals,
        warm_up_s=warm_up,
        window_s=window,
        within=within / 100,
        seconds=seconds,
        requests=requests,
        timeout_s=timeout,
        processes=generators,
    )
    with progress_bar(name) as progress:
        if bare:
            spec = read_spec(project.models / f"{name}.yaml", {"engine": engine} if engine else None)
            entry = measure_bare(project, spec, texts, seconds or BARE_S, progress)
        else:
            endpoint = find_endpoint(project, name, url, token, "grpc" if grpc else "rest")
            entry = measure_load(project, endpoint, texts, instances, load, progress)
    title = f"{name}: {'bare graphs' if bare else load.describe()}"
    _finish(Result("bench", title, [entry], known), out or _builds() / "runs" / name, as_json)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bench.yaml.")],
    instance: InstanceOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure every combination that a bench.yaml lists, in rounds; run it again to go on where it was cut off."""
    from marina.bench.sweep.run import run_sweep

    kept = _builds() / "sweeps" / file.stem
    with progress_bar(file.stem) as progress:
        result = run_sweep(find_project(), file, kept, instance, price, progress)
    for failure in result.more.get("failures", ()):
        print_error(failure)
    _finish(result, out or kept, as_json)


@app.command()
def table(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="Of the field: nlp-12x, ava, search or darwinbox; or overhead.")
    ],
    model: Annotated[str | None, typer.Argument(metavar="NAME", help="A model of yours.")] = None,
    engine: EngineOption = None,
    instance: InstanceOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a table that the field has published, or overhead: the usual handler, Marina and the bare graphs."""
    from marina.bench.report.pricing import price_of
    from marina.bench.tables.kinds import measure_table

    project = find_project()
    known = price_of(instance, price, project.root)
    with progress_bar(name) as progress:
        result = measure_table(project, name, model, engine, known, progress)
    _finish(result, out or _builds() / result.kind, as_json)


@app.command()
def peers(out: OutOption = None, as_json: JsonOption = False) -> None:
    """Measure Marina against other ways to serve, each installed by itself (half an hour)."""
    from marina.bench.tables.peers.run import measure_peers

    with progress_bar("peers") as progress:
        result = measure_peers(find_project(), progress)
    _finish(result, out or _builds() / result.kind, as_json)
    if not as_json:
        for quote in result.more["quotes"]:
            say(quote)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A stored result.json.")],
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="For reports. Left out: the file's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the reports of a stored result again."""
    from marina.bench.report.results import read_result

    _finish(read_result(file), out or file.parent, as_json)


def _builds() -> Path:
    return find_project().root / "build" / "bench"


def _finish(result: Result, folder: Path, as_json: bool) -> None:
    from marina.bench.report.write import show, write_reports
    from marina.bench.tables.kinds import draw, layout_of

    layout = layout_of(result)
    write_reports(result, layout, draw(result), folder)
    if as_json:
        print_json(result.as_json())
    else:
        show(result, layout, folder)
