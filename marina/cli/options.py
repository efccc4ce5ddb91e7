"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from handlers.worker.engines import ENGINES

ENGINE_NAMES = f"{', '.join(ENGINES[:-1])} or {ENGINES[-1]}"

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Models; all of them if none is named.")]
SomeNames = Annotated[list[str], typer.Argument(metavar="NAME", help="Models.")]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="ENGINE", help=f"Instead of the spec's: {ENGINE_NAMES}."),
]
ShapesOption = Annotated[
    str | None,
    typer.Option("--shapes", metavar="SHAPES", help="Instead of the spec's: BATCHxLENGTH with commas, as 1x32,8x128."),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON for programs.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long models may take to start.")
]
