"""Compiles model specs into artifacts: `python compile_models.py [NAME ...] [--engine E] [--shapes S]`.

The same as `marina compile`; see `--help`.
"""

import typer

from marina.cli import run
from marina.cli.build import compile_models

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(compile_models)

if __name__ == "__main__":
    run(app, "compile_models.py")
