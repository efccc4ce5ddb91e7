"""`marina bench run | sweep | table | record | report`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from marina.cli.options import EngineOption, JsonOption
from marina.console import print_error, print_json, progress_bar, say
from marina.errors import MarinaError, SpecError
from marina.project import find_project
from marina.server.run.state import host_option
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.bench.report.results import Result

BARE_S = 8.0
BUSY_S = 0.5  # for a look at what else the machine computes, before the load
# the options of `run` that --bare takes, and those that only --bare takes
BARE_OPTIONS = {"bare", "name", "engine", "texts", "seconds", "instance", "price", "out", "as_json"}
BARE_ONLY_OPTIONS = {"engine"}

InstanceOption = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="For costs: the instance type of this machine, for example inf2.xlarge."),
]
PriceOption = Annotated[
    float | None, typer.Option(min=0, metavar="USD", help="For costs: the price per hour, instead of the known one.")
]
OutOption = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for reports. Default: in build/bench.")]

app = typer.Typer(
    name="bench",
    help="Measure throughput, latency, errors, and where the time goes. "
    "Reports: a table, and result.json, result.csv and report.html with pictures.",
    no_args_is_help=True,
)


@app.command(epilog="Example: `marina bench run ava-intent --rate 100 --seconds 10`")
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model; BUNDLE:MODEL for one of a bundle.")],
    connections: Annotated[
        int | None,
        typer.Option(min=1, help="Requests in flight, 16 by default; with --rate the maximum, 256 by default."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Open loop: send N requests per second, whatever the server does."),
    ] = None,
    arrivals: Annotated[
        Literal["poisson", "constant"], typer.Option(help="With --rate: how requests arrive.")
    ] = "poisson",
    instances: Annotated[
        int, typer.Option(min=1, help="Texts per request (not the machine, which is --instance).")
    ] = 1,
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Texts (.csv, .jsonl), a histogram of lengths (.json), or mix, the built-in one. "
            "Default: the spec's examples, else mix.",
        ),
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", metavar="", help="Use gRPC.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Measure for this long. Default: until the figures settle.")
    ] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Measure this many requests.")] = None,
    warm_up: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Load before the measurement.")] = 2.0,
    window: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Length of a measured window.")] = 5.0,
    within: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="PERCENT",
            help="Settled: throughput and p99 of the last three windows differ by at most this.",
        ),
    ] = 10.0,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="A request without an answer after this is an error.")
    ] = 30.0,
    generators: Annotated[int, typer.Option(min=1, help="Processes that send requests.")] = 1,
    bare: Annotated[bool, typer.Option("--bare", metavar="", help="Run the model's graphs without a server.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Another server, http://HOST:PORT. Default: this project's own.")
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

    Without --rate, every connection sends its next request when it has its answer (closed loop).
    This shows what the server can do. With --rate, requests arrive as users send them (open loop),
    and latency counts from the time when each was due. This shows what users see. Windows are
    repeated until the last three agree; if they do not, the report says so.
    """
    import psutil

    from marina.bench.load.profile import CLOSED_CONNECTIONS, OPEN_CONNECTIONS, Load
    from marina.bench.report.pricing import price_of
    from marina.bench.report.results import Result
    from marina.bench.sweep.single import find_endpoint, measure_bare, measure_load

    given_options = {
        param for param in context.params if getattr(context.get_parameter_source(param), "name", "") == "COMMANDLINE"
    }
    unused_options = given_options - BARE_OPTIONS if bare else given_options & BARE_ONLY_OPTIONS
    if unused_options:
        options = sorted(parameter.opts[0] for parameter in context.command.params if parameter.name in unused_options)
        where = "with --bare" if bare else "for a model that is served"
        raise MarinaError(f"{', '.join(options)} has no meaning {where}; leave it out")
    if seconds and requests:
        raise MarinaError("--seconds and --requests both say how long; give one")
    project = find_project()
    machine_price = price_of(instance, price, project.root)
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
    busy = psutil.cpu_percent(interval=BUSY_S) / 100
    with progress_bar(name) as progress:
        if bare:
            spec = read_spec(project.models / f"{name}.yaml", {"engine": engine} if engine else None)
            entry = measure_bare(project, spec, texts, seconds or BARE_S, progress)
        else:
            endpoint = find_endpoint(project, name, url, token, "grpc" if grpc else "rest")
            entry = measure_load(project, endpoint, texts, instances, load, progress)
    title = f"{name}: {'bare graphs' if bare else load.describe()}"
    result = Result("bench", title, [entry], machine_price, more={"busy": round(busy, 2)})
    _finish(result, out or _bench_folder() / "runs" / name, as_json)


@app.command(epilog="Example: `marina bench sweep bench.yaml`")
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bench.yaml.")],
    instance: InstanceOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure every combination that a bench.yaml lists, in rounds. Run it again to continue after an interruption."""
    from marina.bench.sweep.run import run_sweep

    results_folder = _bench_folder() / "sweeps" / file.stem
    with progress_bar(file.stem) as progress:
        result = run_sweep(find_project(), file, results_folder, instance, price, progress)
    for failure in result.more.get("failures", ()):
        print_error(failure)
    _finish(result, out or results_folder, as_json)


@app.command(epilog="Example: `marina bench table latency ava-intent`")
def table(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="bundle or latency.")],
    model: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Your model. Default: the demonstration models.")
    ] = None,
    engine: EngineOption = None,
    instance: InstanceOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what saves time.

    bundle: models in one archive beside as many archives. latency: where the milliseconds of a text alone go.
    """
    from marina.bench.report.pricing import price_of
    from marina.bench.tables.kinds import TABLES, measure_table, table_kind

    project = find_project()
    machine_price = price_of(instance, price, project.root)
    with progress_bar(name) as progress:
        result = measure_table(project, table_kind(name, TABLES), model, engine, machine_price, progress)
    _finish(result, out or _bench_folder() / result.kind, as_json)


@app.command(epilog="Example: `marina bench record ava-intent --seconds 86400 --out day.csv`")
def record(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The archive, as in the URLs of requests.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .csv to write.")],
    seconds: Annotated[float, typer.Option(min=2, metavar="SECONDS", help="How long to watch the server.")] = 3600.0,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read a web server's log in place of the running server's metrics."),
    ] = None,
) -> None:
    """Record when requests come, for marina plan --replay: from the running server's metrics, or from a log.

    Of metrics, the tokens of texts are kept too, rounded up as in their histogram. Ctrl-C ends it, and keeps what came.
    """
    from marina.bench.server.recording import read_log, record_metrics, write_arrivals
    from marina.server.models import require_running

    if not out.parent.is_dir():
        raise MarinaError(f"{out} cannot be written: there is no folder {out.parent}", f"mkdir -p {out.parent}")
    host = ""
    if log is not None:
        try:
            with log.open(encoding="utf-8", errors="replace") as lines:
                arrivals = read_log(lines, name)
        except OSError as error:
            raise MarinaError(f"{log} cannot be read: {error.strerror}") from None
    else:
        running = require_running(find_project())
        port, host = running.ports.metrics, host_option(running.host)
        with progress_bar(name) as progress:
            steps = round(seconds)
            arrivals = record_metrics(port, name, seconds, lambda count, at: progress(f"{count} requests", at, steps))
    write_arrivals(arrivals, out)
    command = f"marina plan {name}{host} --replay {out} --promise 'p99 <= 50 ms'"
    say(f"{len(arrivals)} requests are in {out}; next: {command}")


@app.command(epilog="Example: `marina bench report build/bench/runs/ava-intent/result.json`")
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A stored result.json.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for reports. Default: the folder of the file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the reports of a stored result again."""
    from marina.bench.report.results import read_result

    _finish(read_result(file), out or file.parent, as_json)


def _bench_folder() -> Path:
    return find_project().root / "build" / "bench"


def _finish(result: Result, folder: Path, as_json: bool) -> None:
    from marina.bench.report.results import RESULT_FILE, read_result
    from marina.bench.report.standard import comparison_note
    from marina.bench.report.write import show, write_reports
    from marina.bench.tables.kinds import draw, layout_of

    layout = layout_of(result)
    with suppress(SpecError):  # there is no earlier run here, or none of this release
        note = comparison_note(result, read_result(folder / RESULT_FILE))
        layout = layout._replace(notes=[*layout.notes, note]) if note else layout
    write_reports(result, layout, draw(result), folder)
    if as_json:
        print_json(result.as_json())
    else:
        show(result, layout, folder)
