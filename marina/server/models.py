"""The commands for the models of a running server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from marina.archive.read import fingerprint_of
from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import check_trusted, find_archives, kept_copies, put_back
from marina.server.drain import let_finish
from marina.server.management.api import ModelStatus
from marina.server.run.lock import one_at_a_time
from marina.server.run.state import RunState, running, write_state
from marina.server.upgrade import Report, bring_all_up_to_date, bring_up_to_date, management_of, retire_others


def require_running(project: Project) -> RunState:
    """The state of the running server; ServerError if none is running."""
    state = running(project)
    if state is None:
        raise ServerError("no server is running", "start one with marina serve")
    return state


class Change(NamedTuple):
    """A model, and its versions before and after a command; before is None if it was not served."""

    name: str
    before: str | None
    after: str

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name}: version {self.after} is served now"
        if self.before == self.after:
            return f"{self.name}: unchanged, version {self.after} is served"
        return f"{self.name}: version {self.after} is served instead of {self.before}"


def register(
    project: Project, names: list[str], timeout_s: float, report: Report, with_outage: bool = False
) -> list[Change]:
    """Serve archives with the running server; a model that is served already is upgraded without an outage.

    Args:
        project: project of the server.
        names: models; if empty, all models in the store.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of the current step.
        with_outage: stop the old version of a model before the new one starts.

    Returns:
        What became of each model.

    Raises:
        ServerError: no server is running, or a worker failed. Models that were served are still served.
    """
    with one_at_a_time(project):
        state = require_running(project)
        archives = find_archives(project, names, state.trusted)
        management = management_of(project, state)
        served = set(management.models())
        before = {name: management.status(name).version for name in (path.stem for path in archives) if name in served}
        bring_all_up_to_date(project, state, archives, timeout_s, report, with_outage)
        changes = []
        for archive in archives:
            version = management.status(archive.stem).version
            retire_others(management, archive.stem, version, timeout_s, report)  # left over from an interrupted upgrade
            changes.append(Change(archive.stem, before.get(archive.stem), version))
        return changes


def rollback(project: Project, name: str, timeout_s: float, report: Report, with_outage: bool = False) -> None:
    """Serve the archive again that was served before the present one, and put it into the model store.

    Raises:
        ServerError: no server is running, no other archive was served before, or a worker failed. The present archive
            is served as before, and stays in the model store.
    """
    with one_at_a_time(project):
        state = require_running(project)
        current, previous = kept_copies(project, name)
        if not previous.exists():
            raise ServerError(f"no earlier archive of {name} was served", "serve two versions before you go back")
        if state.trusted:
            check_trusted([previous], Path(state.trusted))
        wanted = fingerprint_of(previous)
        try:
            bring_up_to_date(project, state, previous, timeout_s, report, with_outage)
        finally:
            if fingerprint_of(current) == wanted:  # it is served, even if the wait for the other one was interrupted
                put_back(project, current)


def unregister(project: Project, names: list[str], drain_s: float = 0) -> None:
    """Unregister models from the running server; ServerError if one is not registered.

    Args:
        project: project of the server.
        names: models.
        drain_s: for how many seconds the models may still answer earlier requests. New requests get 503.
    """
    with one_at_a_time(project):
        state = require_running(project)
        management, names = management_of(project, state), list(dict.fromkeys(names))
        for name in names:
            management.status(name)
        if drain_s:
            let_finish(project, management, names, drain_s)
        for name in names:
            default = management.status(name).version
            for version in sorted(management.versions(name), key=lambda version: version == default):
                management.unregister(name, version)
            remaining = {other: registered for other, registered in state.models.items() if other != name}
            state = replace(state, models=remaining)
            write_state(project, state)


def status(project: Project) -> tuple[RunState, list[ModelStatus]] | None:
    """The running server and its models, or None."""
    state = running(project)
    if state is None:
        return None
    management = management_of(project, state)
    return state, [management.status(name) for name in management.models()]


def find_problems(project: Project, names: list[str]) -> list[str]:
    """Why the named models, or all registered ones, cannot be served; empty if there are no problems."""
    try:
        server = status(project)
    except ServerError as error:
        return [str(error)]
    if server is None:
        return ["no server is running"]
    _, statuses = server
    models = {model.name: model for model in statuses}
    if not models:
        return ["the server has no model"]
    problems = [f"{name} is not registered" for name in names if name not in models]
    return problems + [
        f"{model.name} has {model.ready} of {model.workers} workers READY"
        for model in models.values()
        if (not names or model.name in names) and model.ready < max(1, model.workers)
    ]
