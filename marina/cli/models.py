"""The commands for the models of the running server."""

from __future__ import annotations

from typing import Annotated

import typer

from marina.cli.options import JsonOption, SomeNames, TimeoutOption
from marina.cli.server import DRAIN_S, DrainOption, status
from marina.console import print_json, say, spinner
from marina.project import find_project

ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", metavar="", help="Stop the old version first, where no cores are free for a second."),
]


def register(names: SomeNames, timeout: TimeoutOption = 120, as_json: JsonOption = False) -> None:
    """Add archives from model_store to the running server, and wait until they are READY.

    A model that is served already is upgraded, as by marina upgrade.
    """
    upgrade(names, timeout=timeout, as_json=as_json)


def upgrade(
    names: SomeNames, replace: ReplaceOption = False, timeout: TimeoutOption = 120, as_json: JsonOption = False
) -> None:
    """Serve the archives in model_store instead of those that the running server has, without losing a request.

    The new version starts beside the old one and becomes the default when its workers are READY.
    The old version then answers the requests that it has, and goes. If the new version cannot
    start, nothing changes.
    """
    from marina.server.models import register as register_models

    with spinner() as report:
        changes = register_models(find_project(), names, timeout, report, replace)
    if not as_json:
        for change in changes:
            say(str(change))
    status(as_json)


def rollback(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model.")],
    replace: ReplaceOption = False,
    timeout: TimeoutOption = 120,
    as_json: JsonOption = False,
) -> None:
    """Serve the archive again that was served before, as by marina upgrade.

    It also comes back to model_store. A second rollback undoes the first.
    """
    from marina.server.models import rollback as roll_back

    with spinner() as report:
        roll_back(find_project(), name, timeout, report, replace)
    status(as_json)


def unregister(names: SomeNames, timeout: DrainOption = DRAIN_S, as_json: JsonOption = False) -> None:
    """Remove models from the running server; their archives stay in model_store.

    New requests get 503 at once. Those that the models have are answered first.
    """
    from marina.server.models import unregister as unregister_models

    with spinner() as report:
        report(f"waiting until {', '.join(names)} {'have' if len(names) > 1 else 'has'} answered all requests")
        unregister_models(find_project(), names, timeout)
    status(as_json)


def scale(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model.")],
    workers: Annotated[int, typer.Argument(metavar="N", min=1, help="Worker processes.")],
    force: Annotated[
        bool,
        typer.Option("--force", metavar="", help="Start more than this machine has cores and memory for."),
    ] = False,
    timeout: TimeoutOption = 120,
    as_json: JsonOption = False,
) -> None:
    """Change how many workers a model has, and wait until they are READY.

    If one cannot start, the model keeps the workers it had. The change lasts until the model is
    unregistered, upgraded, or the server is started again. To make it permanent, set core_groups in the spec.
    """
    from marina.server.scaling import scale as scale_model

    with spinner() as report:
        scale_model(find_project(), name, workers, timeout, report, force)
    status(as_json)


def health(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Models. Default: every registered model.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether every worker of the models is READY; exits with 1 if not. For probes and scripts."""
    from marina.server.models import find_problems

    problems = find_problems(find_project(), names or [])
    if as_json:
        print_json({"healthy": not problems, "problems": problems})
    else:
        say("; ".join(problems) or "healthy")
    if problems:
        raise typer.Exit(1)
