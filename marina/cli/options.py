"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from handlers.worker.engines import ENGINES

ENGINE_NAMES = f"{', '.join(ENGINES[:-1])} or {ENGINES[-1]}"

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
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON for programs.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long the models may take to start.")
]
