"""The commands that start, stop and steer TorchServe."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from marina.cli.options import JsonOption, Names, SomeNames, TimeoutOption
from marina.console import print_json, print_table, say, spinner
from marina.project import find_project

Kind = Literal["inference", "management"]


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

    If a server is running already, the archives that it does not serve yet are registered with it.
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


def stop(as_json: JsonOption = False) -> None:
    """Stop TorchServe, its workers, and whatever an earlier run left behind."""
    from marina.server import stop as stop_server

    stopped = stop_server(find_project())
    if as_json:
        print_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "no server was running")


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


def register(names: SomeNames, timeout: TimeoutOption = 120, as_json: JsonOption = False) -> None:
    """Add archives of model_store to the running server, and wait until they are READY."""
    from marina.server import register as register_models

    with spinner() as report:
        register_models(find_project(), names, timeout, report)
    status(as_json)


def unregister(names: SomeNames, as_json: JsonOption = False) -> None:
    """Take models off the running server; their archives stay in model_store."""
    from marina.server import unregister as unregister_models

    unregister_models(find_project(), names)
    status(as_json)


def scale(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model.")],
    workers: Annotated[int, typer.Argument(metavar="N", min=1, help="Worker processes.")],
    timeout: TimeoutOption = 120,
    as_json: JsonOption = False,
) -> None:
    """Change how many workers a model has, and wait until they are READY.

    If one cannot start, the model keeps the workers that it had. The change lasts until the model is
    unregistered; for good, write core_groups into the spec.
    """
    from marina.server import scale as scale_model

    with spinner() as report:
        scale_model(find_project(), name, workers, timeout, report)
    status(as_json)


def health(names: Names = None, as_json: JsonOption = False) -> None:
    """Say whether every worker of the models is READY; exits with 1 if not. For probes and scripts."""
    from marina.server import find_problems

    problems = find_problems(find_project(), names or [])
    if as_json:
        print_json({"healthy": not problems, "problems": problems})
    else:
        say("; ".join(problems) or "healthy")
    if problems:
        raise typer.Exit(1)


def logs(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only of this model's workers.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", metavar="", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print what the server and its workers have logged. Texts of users are not logged."""
    from marina.server.logs import log_lines

    for line in log_lines(find_project(), name, follow):
        print(line, flush=follow)


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


def java(as_json: JsonOption = False) -> None:
    """Print the home of the Java that TorchServe runs on: export JAVA_HOME=$(marina java)."""
    from marina.server.java import find_java_home

    home = str(find_java_home())
    if as_json:
        print_json({"java_home": home})
    else:
        print(home)
