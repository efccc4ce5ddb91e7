"""`marina new project` and `marina new model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marina.cli.options import JsonOption
from marina.console import print_json, relative, say
from marina.project import find_project

app = typer.Typer(name="new", help="Start a project, or a model in it.", no_args_is_help=True)


@app.command(epilog="Example: `marina new project my-models`")
def project(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")], as_json: JsonOption = False
) -> None:
    """Make a project: folders for specs and archives, and the configuration of TorchServe."""
    from marina.new import new_project

    made = new_project(folder)
    if as_json:
        print_json({"project": str(made.root)})
    else:
        say(f"made {folder}; next: cd {folder} && marina new model NAME --from FOLDER")


@app.command(epilog="Example: `marina new model my-intents --from path/to/folder`")
def model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the model and its archive.")],
    origin: Annotated[
        str,
        typer.Option("--from", metavar="FOLDER_OR_HUB_ID", help="Where the model is, as save_pretrained writes it."),
    ],
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="What it answers. Left out: as its config.json says.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write models/NAME.yaml for a model, with its task as its files tell it."""
    from marina.new import new_spec

    path = new_spec(find_project(), name, origin, task)
    if as_json:
        print_json({"spec": str(path)})
    else:
        say(f"wrote {relative(path)}; next: marina archive {name} && marina serve {name}")
