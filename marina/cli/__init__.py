"""The command `marina`: every subcommand parses its arguments, calls one function, and shows the result.

Enters: arguments. Leaves: lines or JSON, and an exit status. Not known here: how anything is done.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from handlers.worker.errors import WorkerError
from marina.cli.bench import app as bench_app
from marina.cli.build import archive, compile_models
from marina.cli.check import check
from marina.cli.clean import clean
from marina.cli.deploy import app as deploy_app
from marina.cli.doctor import doctor
from marina.cli.models import health, register, rollback, scale, unregister, upgrade
from marina.cli.new import app as new_app
from marina.cli.options import message_of
from marina.cli.plan import calibrate, plan
from marina.cli.predict import predict
from marina.cli.score import score
from marina.cli.server import java, logs, serve, status, stop, token
from marina.cli.shapes import shapes
from marina.console import print_error, print_json
from marina.errors import MarinaError


class OrderedGroup(TyperGroup):
    """Lists commands in the order of `PANELS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in PANELS.values() for name, _ in commands.values()]


app = typer.Typer(
    name="marina",
    cls=OrderedGroup,
    help="Compile Hugging Face encoders, pack them as TorchServe archives, serve them, and send them requests.",
    epilog="Quick start: marina archive && marina serve && marina predict ava-intent 'change company address'",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
)


def _show_version(show: bool) -> None:
    if show:
        print(f"marina {version('marina-serving')}")
        raise typer.Exit


@app.callback()
def main_options(
    show_version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options of `marina` itself."""


# by what one is doing: each command with its name and an example of its arguments, or each group of commands
PANELS: dict[str, dict[Callable[..., None] | typer.Typer, tuple[str, str]]] = {
    "Start": {
        new_app: ("new", ""),
        check: ("check", "ava-intent"),
        doctor: ("doctor", "--engine neuronx"),
    },
    "Compile": {
        archive: ("archive", "ava-intent resume-search"),
        compile_models: ("compile", "ava-intent --shapes 1x32,8x128"),
        shapes: ("shapes", "ava-intent --write"),
        clean: ("clean", "--yes"),
    },
    "Serve": {
        serve: ("serve", "ava-intent resume-search --port 9080"),
        stop: ("stop", ""),
        status: ("status", "--json"),
        health: ("health", "ava-intent"),
        logs: ("logs", "ava-intent --follow"),
        register: ("register", "paraphrase"),
        unregister: ("unregister", "paraphrase"),
        upgrade: ("upgrade", "ava-intent"),
        rollback: ("rollback", "ava-intent"),
        scale: ("scale", "ava-intent 2"),
        token: ("token", "management"),
        java: ("java", ""),
    },
    "Send texts": {
        predict: ("predict", "ava-intent 'where is my invoice?' --set top_k=3"),
        score: ("score", "ava-intent --input requests.csv --output answers.csv"),
    },
    "Measure and plan": {
        bench_app: ("bench", ""),
        calibrate: ("calibrate", "ava-intent"),
        plan: ("plan", "ava-intent --rate 100 --promise 'p99 <= 50 ms'"),
    },
    "Deploy": {deploy_app: ("deploy", "")},
}
for panel, commands in PANELS.items():
    for command, (name, example) in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, epilog=f"Example: `{f'marina {name} {example}'.strip()}`", rich_help_panel=panel)(command)


def run(application: typer.Typer, program: str) -> None:
    """Run a command line; an expected failure is one line on standard error and exit 1.

    With --json standard output then holds an object with "error", and "cause" and "fix" where they are told apart.
    A request to end (SIGTERM) is cleaned up after like Ctrl-C.
    """
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        application(prog_name=program)
    except KeyboardInterrupt:  # before Typer catches it, or after
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has ended, as head does
        sys.stdout = None  # nothing is left to flush
        sys.exit(1)
    except (MarinaError, WorkerError, OSError, ModuleNotFoundError) as error:
        print_error(message_of(error))
        if "--json" in sys.argv:
            parts = {"cause": error.cause, "fix": error.fix} if isinstance(error, MarinaError) else {}
            print_json({"error": message_of(error), **parts})
        sys.exit(1)


def main() -> None:
    """The command `marina`."""
    run(app, "marina")
