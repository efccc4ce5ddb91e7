"""`marina new project` and `marina new model`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from marina.cli.options import JsonOption
from marina.console import print_json, relative, say
from marina.project import find_project

app = typer.Typer(name="new", help="Create a project, or the spec of a model.", no_args_is_help=True)


@app.command(epilog="Example: `marina new project my-models`")
def project(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.")], as_json: JsonOption = False
) -> None:
    """Create a project: folders for specs and archives, and the configuration of TorchServe."""
    from marina.new import new_project

    created = new_project(folder)
    if as_json:
        print_json({"project": str(created.root)})
    else:
        say(f"created {folder}; next: cd {shlex.quote(str(folder))} && marina new model NAME --from FOLDER")


@app.command(epilog="Example: `marina new model my-intents --from path/to/folder`")
def model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the model and its archive.")],
    origin: Annotated[
        str,
        typer.Option("--from", metavar="FOLDER_OR_HUB_ID", help="A folder that save_pretrained wrote, or a model id."),
    ],
    task: Annotated[str | None, typer.Option(metavar="TASK", help="Task. Default: from config.json.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write models/NAME.yaml for a model. Its config.json decides the task."""
    from marina.new import new_spec

    path, longest, readable = new_spec(find_project(), name, origin, task)
    if as_json:
        print_json({"spec": str(path), "longest": longest, "readable": readable})
        return
    if longest < readable:
        say(f"the spec is for texts of up to {longest} tokens, of {readable} that the model can read; see shapes in it")
    say(f"wrote {relative(path)}; next: marina archive {name} && marina serve {name}")
