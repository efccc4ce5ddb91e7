"""The commands that start, stop and show the server."""

from __future__ import annotations

import time
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from marina.cli.options import Archives, JsonOption, TimeoutOption, known_host
from marina.console import print_json, print_table, say, spinner
from marina.project import find_project

Kind = Literal["inference", "management"]
DRAIN_S = 30.0
NO_TOKEN = "warning: requests need no token, so every user and program of this machine can send them"
OFFSET_VARIABLE = "MARINA_PORT_OFFSET"
DrainOption = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long requests that are under way may still be answered.")
]


def _port(purpose: str, default: int) -> Any:
    return typer.Option(
        min=1, max=65535, metavar="PORT", help=f"Port for {purpose}. Default: that of config.properties, {default}."
    )


def serve(
    names: Archives = None,
    port: Annotated[int | None, _port("inference over HTTP", 8080)] = None,
    management_port: Annotated[int | None, _port("management over HTTP", 8081)] = None,
    metrics_port: Annotated[int | None, _port("metrics", 8082)] = None,
    grpc_inference_port: Annotated[int | None, _port("inference over gRPC", 7070)] = None,
    grpc_management_port: Annotated[int | None, _port("management over gRPC", 7071)] = None,
    port_offset: Annotated[
        int,
        typer.Option(
            min=0,
            envvar=OFFSET_VARIABLE,
            metavar="N",
            help="Added to every port that is not given.",
        ),
    ] = 0,
    timeout: TimeoutOption = 120,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground",
            metavar="",
            help="Stay, and print the logs: for systemd and containers. With --json, each line is an object.",
        ),
    ] = False,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="With --foreground: as --timeout of marina stop.")
    ] = DRAIN_S,
    trusted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Refuse archives that are not in this list, as sha256sum writes it."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            callback=known_host,
            envvar="MARINA_HOST",
            metavar="HOST",
            help="What carries the workers: torchserve, or direct, which needs no Java and answers sooner. "
            "Default: torchserve, or that of the running server.",
        ),
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option("--no-auth", metavar="", help="With --host direct: requests need no token."),
    ] = False,
    no_docs: Annotated[
        bool, typer.Option("--no-docs", metavar="", help="With --host direct: no page at /docs.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a server in the background with archives from model_store.

    If a server is running already, this registers the archives that it does not serve yet, and
    upgrades those that have changed. Returns when every worker is READY, that is, has reproduced
    the reference model's answers on the cores that serve. If a worker cannot, the server is stopped
    again and the worker's error is shown. If the server dies, it is started again. Every port
    listens on 127.0.0.1. Logs and state are in build/run.
    """
    from marina.server.foreground import drop_secrets, serve_in_foreground
    from marina.server.lifecycle import serve as serve_models
    from marina.server.run.json_logs import line_printer
    from marina.server.run.ports import configured_ports
    from marina.server.run.state import DEFAULT_HOST, Access
    from marina.server.watch import start_watch

    project, trust_list = find_project(), str(trusted.absolute()) if trusted else None
    given = {
        "inference": port,
        "management": management_port,
        "metrics": metrics_port,
        "grpc_inference": grpc_inference_port,
        "grpc_management": grpc_management_port,
    }
    given_ports = {name: number for name, number in given.items() if number is not None}
    ports = None
    if given_ports or port_offset:
        ports = replace_fields(configured_ports(project.config).shifted(port_offset), **given_ports)
    access = Access(needs_token=not no_auth, docs=not no_docs)
    write = line_printer(as_json) if foreground else say
    if no_auth and host not in (None, DEFAULT_HOST):
        write(NO_TOKEN)
    if foreground:
        drop_secrets()
        raise typer.Exit(
            serve_in_foreground(project, names or [], ports, timeout, drain, write, trust_list, host, access)
        )
    start = time.monotonic()
    with spinner() as report:
        state = serve_models(project, names or [], ports, timeout, report, trust_list, host=host, access=access)
    if not state.foreground:
        start_watch(project)
    if not as_json:
        say(f"ready in {time.monotonic() - start:.1f} s, pid {state.pid}")
    status(as_json)


def stop(
    timeout: DrainOption = DRAIN_S,
    as_json: JsonOption = False,
) -> None:
    """Stop the server, its workers, and anything that an earlier run left behind.

    New requests get 503 at once. Those that the server has are answered first.
    """
    from marina.server.lifecycle import stop as stop_server

    stopped = stop_server(find_project(), timeout)
    if as_json:
        print_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "no server was running")


def status(as_json: JsonOption = False) -> None:
    """Show the running server's models. Exits with 1 if none runs or a worker is not READY."""
    from marina.server.hosts.table import HOSTS
    from marina.server.models import status as server_status
    from marina.server.run.state import DEFAULT_HOST

    running = server_status(find_project())
    if running is None:
        if as_json:
            print_json({"running": False})
        else:
            say("no server is running")
        raise typer.Exit(1)
    state, models = running
    if as_json:
        ports = vars(state.ports)
        served = [model._asdict() for model in models]
        print_json({"running": True, "pid": state.pid, "host": state.host, "ports": ports, "models": served})
    else:
        rows = [[m.name, m.version, f"{m.ready} of {m.workers} READY", str(m.pending)] for m in models]
        print_table(["model", "version", "workers", "waiting"], rows, numbers=1)
        say(f"http://127.0.0.1:{state.ports.inference}/predictions/NAME")
        if state.host != DEFAULT_HOST:
            has_page = HOSTS[state.host].has_access and state.access.docs
            page = f"; try it at http://127.0.0.1:{state.ports.inference}/docs" if has_page else ""
            say(f"host {state.host}{page}")
        if not state.access.needs_token:
            say(NO_TOKEN)
    if any(model.ready < max(1, model.workers) for model in models):
        raise typer.Exit(1)


def logs(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only lines of this model's workers.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Keep printing new lines until Ctrl-C.")
    ] = False,
) -> None:
    """Print what the server and its workers have logged. Texts of users are not logged."""
    from marina.server.run.logs import log_lines

    for line in log_lines(find_project(), name, following=lambda: follow):
        print(line, flush=follow)


def token(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="inference or management.")] = "inference",
    as_json: JsonOption = False,
) -> None:
    """Print a valid token of the running server, for use with curl.

    The inference token is for predictions. The management token is for registering, scaling and
    removing models.
    """
    from marina.server.models import require_running
    from marina.server.run.tokens import token as valid_token

    project = find_project()
    value = valid_token(project.run, kind, require_running(project).ports.management)
    if as_json:
        print_json({"kind": kind, "token": value})
    else:
        print(value)


def java(as_json: JsonOption = False) -> None:
    """Print the home of the Java that TorchServe uses: export JAVA_HOME=$(marina java)."""
    from marina.server.hosts.torchserve.java import find_java_home

    home = str(find_java_home())
    if as_json:
        print_json({"java_home": home})
    else:
        print(home)
