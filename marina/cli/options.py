"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from handlers.worker.engines import ENGINES
from marina.errors import MarinaError
from marina.files import explain

ENGINE_NAMES = f"{', '.join(ENGINES[:-1])} or {ENGINES[-1]}"


def known_host(name: str | None) -> str | None:
    """The value of --host; an error of its option if no host has that name."""
    from marina.server.hosts.table import check_host

    try:
        return name and check_host(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Models. Default: every spec in models/.")]
Archives = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Models. Default: every archive in model_store/.")
]
SomeNames = Annotated[list[str], typer.Argument(metavar="NAME", help="Models.")]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="ENGINE", help=f"Use this engine instead of the spec's: {ENGINE_NAMES}."),
]
ShapesOption = Annotated[
    str | None,
    typer.Option("--shapes", metavar="SHAPES", help="Use these shapes instead of the spec's, for example 1x32,8x128."),
]
HostOption = Annotated[
    str,
    typer.Option(
        "--host",
        callback=known_host,
        envvar="MARINA_HOST",
        metavar="HOST",
        help="What carries the workers: torchserve, or direct, which needs no Java.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON for programs.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long the models may take to start.")
]


def key_value(setting: str, option: str, example: str) -> tuple[str, str]:
    """The two parts of a NAME=VALUE of the command line; MarinaError if it is none."""
    name, separator, value = setting.partition("=")
    if not separator:
        raise MarinaError(f"{option} {setting}: write NAME=VALUE, for example {example}")
    return name, value


def parameter_of(setting: str) -> tuple[str, Any]:
    """A NAME=VALUE of --set; the value is JSON, or else a word."""
    name, value = key_value(setting, "--set", "top_k=3")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def message_of(error: Exception) -> str:
    """The message of an expected failure, such as a full disk or a package that is not installed."""
    if isinstance(error, ModuleNotFoundError):
        return f"this needs the package {error.name}, which is not installed; install Marina with its extra [all]"
    return explain(error) if isinstance(error, OSError) else str(error)
