"""Commands that do the same for several models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from handlers.worker.errors import WorkerError
from marina.cli.options import message_of
from marina.console import print_error, print_json
from marina.errors import MarinaError, SpecError
from marina.project import Project
from marina.spec import Spec
from marina.spec.bundle import Bundle, read_members, read_model


def for_each_spec(
    project: Project,
    names: list[str] | None,
    engine: str | None,
    shapes: str | None,
    work: Callable[[Spec | Bundle, list[Spec]], dict[str, Any]],
    as_json: bool,
) -> None:
    """Do the work for every model and bundle; a failure of one does not stop the others.

    Args:
        project: the project with the specs.
        names: names of models and bundles; all of them if None or empty.
        engine, shapes: used in place of each spec's, as on the command line.
        work: takes a spec, or a bundle, and the specs of its models; returns its document for `--json`.
        as_json: whether to print the documents.

    Raises:
        typer.Exit: with 1 when any failed, after the last; with 130 at Ctrl-C.
    """
    overrides: dict[str, Any] = {}
    if engine:
        overrides["engine"] = engine
    if shapes:
        overrides["shapes"] = {"exact": shapes.split(",")}
    spec_names = sorted(path.stem for path in project.models.glob("*.yaml"))
    if not names and not spec_names:
        raise SpecError(f"{project.models} holds no spec", "make one with marina new model NAME --from FOLDER")
    documents, failed = [], False
    for name in names or spec_names:
        try:
            if name not in spec_names:
                raise SpecError(f"no model {name!r} in {project.models}; there are: {', '.join(spec_names) or 'none'}")
            model = read_model(project.models / f"{name}.yaml", overrides)
            specs = read_members(model, project.models, overrides) if isinstance(model, Bundle) else [model]
            documents.append(work(model, specs))
        except KeyboardInterrupt:
            print_error(f"interrupted in {name}; the same command goes on with what is done so far")
            raise typer.Exit(130) from None
        except (MarinaError, WorkerError, OSError) as error:
            message = _with_name(message_of(error), name)
            print_error(message)
            documents.append({"name": name, "error": message})
            failed = True
    if as_json:
        print_json(documents)
    if failed:
        raise typer.Exit(1)


def _with_name(message: str, name: str) -> str:
    """The message with the name of its model in front, unless it names the model already."""
    return message if message.startswith(f"{name}:") or f"{name}.yaml" in message else f"{name}: {message}"
