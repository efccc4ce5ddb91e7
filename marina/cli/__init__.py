"""The command `marina`: every subcommand parses its arguments, calls one function, and shows the result."""

from __future__ import annotations

import signal
import sys

import typer

from handlers.worker.errors import WorkerError
from marina.cli.bench import app as bench_app
from marina.cli.build import archive, compile_models
from marina.cli.doctor import doctor
from marina.cli.predict import predict
from marina.cli.server import java, register, serve, status, stop, token, unregister
from marina.cli.shapes import shapes
from marina.console import print_error
from marina.errors import MarinaError

app = typer.Typer(
    name="marina",
    help="Compile Hugging Face encoders, pack them as TorchServe archives, serve them and ask them.",
    epilog="A first round: marina archive && marina serve && marina predict ava-intent 'change company address'",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("compile")(compile_models)
for command in (archive, shapes, doctor, serve, stop, status, register, unregister, predict, token, java):
    app.command()(command)
app.add_typer(bench_app, name="bench")


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
