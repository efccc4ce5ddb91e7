"""The command `marina`: every subcommand parses its arguments, calls one function, and shows the result."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from handlers.worker.errors import WorkerError
from marina.console import print_answer, print_error, print_json, print_table, progress_bar, relative, say, spinner
from marina.errors import MarinaError, SpecError
from marina.project import Project, find_project
from marina.spec import Spec, read_spec

Kind = Literal["inference", "management"]

app = typer.Typer(
    name="marina",
    help="Compile Hugging Face encoders, pack them as TorchServe archives, serve them and ask them.",
    epilog="A first round: marina archive && marina serve && marina predict ava-intent 'change company address'",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Models; all of them if none is named.")]
SomeNames = Annotated[list[str], typer.Argument(metavar="NAME...", help="Models.")]
EngineOption = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="Instead of the spec's: openvino or torchscript.")
]
ShapesOption = Annotated[
    str | None,
    typer.Option("--shapes", metavar="SHAPES", help="Instead of the spec's: BATCHxLENGTH with commas, as 1x32,8x128."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long models may take to start.")
]


@app.command("compile")
def compile_models(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Compile models into artifacts under build/artifacts.

    Every graph is checked against the Hugging Face model on real texts. What has been compiled
    before is not compiled again, and what was interrupted goes on where it stopped.
    """
    project = find_project()
    documents = _for_each_spec(project, names, engine, shapes, lambda spec: _compile(spec, project, not as_json))
    if as_json:
        print_json(documents)


@app.command()
def archive(
    names: Names = None, engine: EngineOption = None, shapes: ShapesOption = None, as_json: JsonOption = False
) -> None:
    """Pack models as model_store/NAME.mar, compiling first what is not compiled yet.

    An archive holds the artifact, its handler and all that the worker needs besides installed
    packages. The same spec, weights and versions give the same archive, byte for byte.
    """
    from marina.archive import pack

    project = find_project()

    def compile_and_pack(spec: Spec) -> dict[str, Any]:
        document = _compile(spec, project, not as_json)
        packed = pack(spec, Path(document["artifact"]), project.model_store)
        if not as_json:
            size = packed.path.stat().st_size / 1e6
            say(f"{spec.name}: {'unchanged' if packed.reused else 'packed'} {relative(packed.path)} ({size:.1f} MB)")
        return {**document, "archive": str(packed.path), "archive_reused": packed.reused}

    documents = _for_each_spec(project, names, engine, shapes, compile_and_pack)
    if as_json:
        print_json(documents)


@app.command()
def serve(
    names: Names = None,
    port: Annotated[int, typer.Option(help="Inference over HTTP.")] = 8080,
    management_port: Annotated[int, typer.Option(help="Management over HTTP.")] = 8081,
    metrics_port: Annotated[int, typer.Option(help="Metrics for Prometheus.")] = 8082,
    grpc_inference_port: Annotated[int, typer.Option(help="Inference over gRPC.")] = 7070,
    grpc_management_port: Annotated[int, typer.Option(help="Management over gRPC.")] = 7071,
    timeout: TimeoutOption = 120,
    as_json: JsonOption = False,
) -> None:
    """Start TorchServe in the background with archives of model_store.

    Returns when every worker is READY, that is, has reproduced the reference model's answers on
    the cores that serve. If one cannot, the server is stopped again and the worker's own error is
    shown. Everything listens on 127.0.0.1; logs and state lie under build/run.
    """
    from marina.server import serve as serve_models
    from marina.server.state import Ports

    ports = Ports(port, management_port, metrics_port, grpc_inference_port, grpc_management_port)
    start = time.monotonic()
    with spinner() as report:
        state = serve_models(find_project(), names or [], ports, timeout, report)
    if not as_json:
        say(f"ready in {time.monotonic() - start:.1f} s, pid {state.pid}")
    status(as_json)


@app.command()
def stop(as_json: JsonOption = False) -> None:
    """Stop TorchServe, its workers, and whatever an earlier run left behind."""
    from marina.server import stop as stop_server

    stopped = stop_server(find_project())
    if as_json:
        print_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "no server was running")


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show the running server's models. Exits with 1 if none runs or a worker is not READY."""
    from marina.server import status as server_status

    found = server_status(find_project())
    if found is None:
        if as_json:
            print_json({"running": False})
        else:
            say("no server is running")
        raise typer.Exit(1)
    state, models = found
    if as_json:
        ports = vars(state.ports)
        print_json({"running": True, "pid": state.pid, "ports": ports, "models": [m._asdict() for m in models]})
    else:
        rows = [[m.name, m.version, f"{m.ready} of {m.workers} READY", str(m.pending)] for m in models]
        print_table(["model", "version", "workers", "waiting"], rows, numbers=1)
        say(f"http://127.0.0.1:{state.ports.inference}/predictions/NAME")
    if any(model.ready < model.workers for model in models):
        raise typer.Exit(1)


@app.command()
def register(names: SomeNames, timeout: TimeoutOption = 120, as_json: JsonOption = False) -> None:
    """Add archives of model_store to the running server, and wait until they are READY."""
    from marina.server import register as register_models

    with spinner() as report:
        register_models(find_project(), names, timeout, report)
    status(as_json)


@app.command()
def unregister(names: SomeNames, as_json: JsonOption = False) -> None:
    """Take models off the running server; their archives stay in model_store."""
    from marina.server import unregister as unregister_models

    unregister_models(find_project(), names)
    status(as_json)


@app.command()
def predict(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model.")],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="One text or more; questions, with --context.")],
    pair: Annotated[str | None, typer.Option(help="A second text, for models that compare two.")] = None,
    context: Annotated[
        str | None, typer.Option(help="Where the answers are, for models that answer questions.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter, as top_k=3; repeat for more.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a model of the running server.

    With --json the answer is printed as the server gave it.
    """
    from marina.client import Client
    from marina.server import require_running
    from marina.server.tokens import token as valid_token

    project = find_project()
    ports = require_running(project).ports
    inputs: list[Any] = list(texts)
    if pair is not None:
        inputs = [{"text": text, "text_pair": pair} for text in texts]
    elif context is not None:
        inputs = [{"question": text, "context": context} for text in texts]
    parameters = dict(_parameter(setting) for setting in settings or [])
    url = f"http://127.0.0.1:{ports.inference}"
    with Client.http(url, lambda: valid_token(project.run, "inference", ports.management)) as client:
        answers = client.ask(name, inputs, **parameters)
    if as_json:
        print_json(answers if len(texts) > 1 else answers[0])
        return
    for text, answer in zip(texts, answers):
        if len(texts) > 1:
            say(text)
        print_answer(answer)


@app.command()
def token(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="inference or management.")] = "inference",
    as_json: JsonOption = False,
) -> None:
    """Print a token that the running server accepts now, for use with curl.

    The inference token asks models; the management token registers, scales and removes them.
    """
    from marina.server import require_running
    from marina.server.tokens import token as valid_token

    project = find_project()
    value = valid_token(project.run, kind, require_running(project).ports.management)
    if as_json:
        print_json({"kind": kind, "token": value})
    else:
        print(value)


@app.command()
def java(as_json: JsonOption = False) -> None:
    """Print the home of the Java that TorchServe runs on: export JAVA_HOME=$(marina java)."""
    from marina.server.java import find_java_home

    home = str(find_java_home())
    if as_json:
        print_json({"java_home": home})
    else:
        print(home)


def _for_each_spec(
    project: Project,
    names: list[str] | None,
    engine: str | None,
    shapes: str | None,
    work: Callable[[Spec], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Do the work for every model; one that fails does not keep the others from theirs."""
    overrides: dict[str, Any] = {}
    if engine:
        overrides["engine"] = engine
    if shapes:
        overrides["shapes"] = {"exact": shapes.split(",")}
    known = sorted(path.stem for path in project.models.glob("*.yaml"))
    documents, failed = [], False
    for name in names or known:
        try:
            if name not in known:
                raise SpecError(f"no model {name!r} in {project.models}; there are: {', '.join(known) or 'none'}")
            documents.append(work(read_spec(project.models / f"{name}.yaml", overrides)))
        except (MarinaError, WorkerError) as error:
            print_error(str(error))
            failed = True
    if failed:
        raise typer.Exit(1)
    return documents


def _compile(spec: Spec, project: Project, show: bool) -> dict[str, Any]:
    """Compile one model; returns what `--json` prints of it."""
    from handlers.worker.artifact import read_artifact
    from marina.compiler import compile_model
    from marina.compiler.timing import read_times

    start = time.monotonic()
    with progress_bar(spec.name) as progress:
        folder, reused = compile_model(spec, project, progress)
    artifact = read_artifact(folder)
    times = read_times(folder)
    graphs = [
        {"shape": str(graph.shape), "parity": graph.parity, "milliseconds": times.get(graph.shape)}
        for graph in artifact.graphs
    ]
    if show:
        done = "reused" if reused else f"compiled in {time.monotonic() - start:.1f} s"
        say(f"{spec.name}: {done}, {len(graphs)} {artifact.engine} {artifact.precision} graphs in {relative(folder)}")
        if not reused:
            rows = []
            for graph in artifact.graphs:
                milliseconds = times[graph.shape]
                rate = graph.shape.batch_size / milliseconds * 1000
                rows.append([str(graph.shape), f"{milliseconds:.2f}", f"{rate:.0f}", f"{graph.parity:.0e}"])
            print_table(["graph", "ms a call", "rows/s", "parity"], rows, numbers=3)
    return {"name": spec.name, "artifact": str(folder), "reused": reused, "graphs": graphs}


def _parameter(setting: str) -> tuple[str, Any]:
    """A NAME=VALUE of the command line; the value is JSON, or else a word."""
    name, separator, value = setting.partition("=")
    if not separator:
        raise MarinaError(f"--set {setting}: write NAME=VALUE, for example top_k=3")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def run(application: typer.Typer, program: str) -> None:
    """Run a command line; an expected failure is one line on standard error and exit 1.

    A request to end (SIGTERM) is cleaned up after like Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        application(prog_name=program)
    except (MarinaError, WorkerError) as error:
        print_error(str(error))
        sys.exit(1)


def main() -> None:
    """The command `marina`."""
    run(app, "marina")
