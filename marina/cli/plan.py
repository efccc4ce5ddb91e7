"""`marina plan` and `marina calibrate`."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from marina.cli.options import EngineOption, HostOption, JsonOption, SomeNames
from marina.console import print_json, print_table, progress_bar, relative, say
from marina.errors import MarinaError, SpecError
from marina.project import find_project
from marina.server.run.state import host_option
from marina.spec import read_spec

if TYPE_CHECKING:
    from marina.plan.calibration.record import Calibration
    from marina.plan.workload import Workload

BESIDE_WORKLOAD = ("workload", "compare", "write", "as_json")  # the options of `marina plan` that go with a file
PROMISE = re.compile(r"\s*p(\d+(?:\.\d+)?)\s*(?:<=|≤|<)\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*")


def calibrate(
    names: SomeNames,
    texts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Texts like those to serve, as for marina bench. Default: the spec's."),
    ] = None,
    engine: EngineOption = None,
    host: HostOption = "torchserve",
    as_json: JsonOption = False,
) -> None:
    """Measure what serving a model costs on this machine, for marina plan: about seven minutes a model.

    Graphs, the stages of a worker, and the host's own part are measured, and kept beside the artifact. The machine
    should do nothing else meanwhile. The results say how well simulations of the measured loads fit.
    """
    from marina.bench.server.benchmark_server import benchmark_server
    from marina.plan.calibration.calibrate import calibrate as measure

    project = find_project()
    specs = [read_spec(project.models / f"{name}.yaml", {"engine": engine} if engine else None) for name in names]
    calibrations: dict[str, tuple[Calibration, Path]] = {}
    for spec in specs:
        with progress_bar(spec.name) as progress, benchmark_server(project, progress) as server:
            calibrations[spec.name] = measure(spec, project, server, texts, progress, host)
    if as_json:
        print_json(
            {
                name: {"file": str(path), "error": calibration.error, "noise": calibration.noise}
                for name, (calibration, path) in calibrations.items()
            }
        )
        return
    for name, (calibration, path) in calibrations.items():
        say(f"{name}: simulations of its loads are within {calibration.error:.1%} (median) of what was measured")
        say(f"{name}: during the calibration, a graph took up to {calibration.noise:.0%} more or less than its mean")
        command = f"marina plan {name}{host_option(host)} --rate 100 --promise 'p99 <= 50 ms'"
        say(f"written to {relative(path)}; next: {command}")


def plan(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Models, which are calibrated.")] = None,
    workload: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A workload.yaml, in place of names and the other options.")
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(metavar="N", help="Requests per second at the peak; once, or once for each model."),
    ] = None,
    promise: Annotated[
        str | None, typer.Option(metavar="'p99 <= 50 ms'", help="The percentile of latency that is promised.")
    ] = None,
    instances: Annotated[int, typer.Option(min=1, metavar="N", help="Texts of a request.")] = 1,
    lengths: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Texts (.csv, .jsonl), a histogram of lengths (.json), or mix."),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Times of requests to replay: a .csv of marina bench record, or your own."),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Where it may run: here, or an instance type; repeat for several."),
    ] = None,
    one_down: Annotated[
        bool, typer.Option("--one-down", metavar="", help="The promise holds while one instance is down.")
    ] = False,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="The share of repeated measurements that must keep the promise, such as 0.95."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", help="The most to pay a month.")] = None,
    price: Annotated[float | None, typer.Option(metavar="USD", help="Of a machine like this one, an hour.")] = None,
    host: HostOption = "torchserve",
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show AWS's answer beside ours: the JSON of an Inference Recommender job."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", metavar="", help="Write the choice into models/NAME.yaml.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compute what to deploy: the cheapest way to serve that keeps a promise about latency, before anything is bought.

    Every way to serve the models is judged by bounds, and the promising ones by a simulation of the host's queues and
    batches with the times that marina calibrate measured. Times for Inferentia and Trainium are estimates from AWS's
    published figures, and marked as such.
    """
    from marina.plan.answers.answer import COLUMNS
    from marina.plan.answers.picture import picture
    from marina.plan.answers.recommender import comparison_table, read_recommendations
    from marina.plan.answers.write import write_choice
    from marina.plan.make import make_plan

    project = find_project()
    if workload is None:
        requested_workload = _workload_of_options(
            names, rate, promise, instances, lengths, replay, on, one_down, confidence, budget, price, host
        )
    else:
        requested_workload = _workload_of_file(workload, context)
    recommendations = read_recommendations(compare) if compare else []
    with progress_bar("plan") as progress:
        answer = make_plan(requested_workload, project, progress)
    path = project.root / "build" / "plan" / "plan.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(answer))
    changed_paths = write_choice(answer, project) if write else []
    if as_json:
        print_json({**answer.as_json(), "inference_recommender": recommendations})
    else:
        say(answer.sentence)
        for line in answer.lines():
            say(line)
        print_table(COLUMNS, answer.rows(), numbers=9)
        if recommendations:
            print_table(*comparison_table(recommendations, answer), numbers=5)
        say(f"picture: {relative(path)}")
        for spec_path in changed_paths:
            say(f"written to {relative(spec_path)}")
    if answer.result.best is None:
        raise typer.Exit(1)


def _workload_of_file(file: Path, context: typer.Context) -> Workload:
    """The workload of a file; it stands alone, but for options that say nothing of the workload."""
    from marina.fields import read_fields
    from marina.plan.workload import Workload

    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in BESIDE_WORKLOAD and source and source.name == "COMMANDLINE":
            named = option.opts[0] if option.opts[0].startswith("-") else "NAME"
            raise MarinaError(f"--workload FILE is the whole workload: leave out {named}")
    return read_fields(file, Workload)


def _workload_of_options(
    names: list[str] | None,
    rate: list[float] | None,
    promise: str | None,
    instances: int,
    lengths: str | None,
    replay: str | None,
    on: list[str] | None,
    one_down: bool,
    confidence: float | None,
    budget: float | None,
    price: float | None,
    host: str,
) -> Workload:
    from marina.bench.load.payload import MIX
    from marina.plan.workload import HERE, Workload

    if not names:
        raise MarinaError("name the models to plan for, or give a --workload FILE")
    match = PROMISE.fullmatch(promise or "")
    if not match:
        raise MarinaError("say what is promised, for example --promise 'p99 <= 50 ms'")
    rates = (rate or []) if len(rate or []) != 1 else list(rate or []) * len(names)
    if not replay and len(rates) != len(names):
        raise MarinaError("say how many requests per second come, with --rate N once or once for each model")
    # files of options are in the current folder, and those of a workload.yaml in the project's
    shared_fields = {
        "instances": instances,
        "lengths": lengths if lengths is None or lengths == MIX else str(Path(lengths).absolute()),
        "log": str(Path(replay).absolute()) if replay else None,
    }
    demands = [
        {"name": name, "rate": model_rate, **shared_fields} for name, model_rate in itertools.zip_longest(names, rates)
    ]
    percentile, latency, unit = match.groups()
    try:
        return Workload.model_validate(
            {
                "models": demands,
                "promise": {
                    "percentile": float(percentile),
                    "latency_ms": float(latency) * (1000 if unit == "s" else 1),
                    "one_down": one_down,
                    "confidence": confidence,
                },
                "budget": budget,
                "price": price,
                "host": host,
                "places": on or [HERE],
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise SpecError(f"the options are not a workload: {place}: {first['msg']}") from None
