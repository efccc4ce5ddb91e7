"""Registers archives with a running server: new models, and new versions beside those that are served."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from handlers.worker.placement import GROUP_SIZES
from marina.archive.read import fingerprint_of, version_of
from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import DRAINING, keep, kept, offered
from marina.server.drain import refuse_new, wait_until_idle
from marina.server.logs import WORKERS_LOG
from marina.server.room import check_beside, check_room, need_of, workers_of
from marina.server.state import Registered, RunState, logs_folder, write_state
from marina.server.torchserve.management import Management
from marina.server.torchserve.readiness import log_size, wait_until_ready
from marina.server.torchserve.run import remove_unpacked, unpacked_archives

Report = Callable[[str], None]


def management_of(project: Project, state: RunState) -> Management:
    """The management API of a running server."""
    return Management(project.run, state.ports.management)


def register_new(
    project: Project, state: RunState, archives: list[Path], timeout_s: float, report: Report, strict: bool = True
) -> RunState:
    """Register models that the server does not have, all at once; returns the new state.

    With `strict`, every model of a bundle must be served too.

    Raises:
        ServerError: a worker failed, or there are too few cores. None of the models is registered then.
    """
    if management_of(project, state).models():
        check_beside(archives, state)
    else:
        check_room(archives)
    return _register(project, state, dict.fromkeys(archives), timeout_s, report, strict)


def bring_up_to_date(
    project: Project, state: RunState, archive: Path, timeout_s: float, report: Report, with_outage: bool = False
) -> RunState:
    """Let the server answer with an archive: register it, beside the version that it replaces if there is one.

    The new version becomes the default when its workers are READY. Then the old one answers what it has, and goes.

    Args:
        project: project of the server.
        state: of the server.
        archive: with the model's name.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of the current step.
        with_outage: stop the old version first. This needs no second group of cores.

    Returns:
        The new state; the same if the server has this very archive.

    Raises:
        ServerError: a worker failed, or there is no place for it. The old version is served as before.
    """
    name, management = archive.stem, management_of(project, state)
    if name not in management.models():
        return register_new(project, state, [archive], timeout_s, report)
    served, known, version = management.status(name), state.models.get(name), version_of(archive)
    works = served.ready >= max(1, served.workers)
    if with_outage or (served.version == version and not works):
        return _replace(project, state, archive, timeout_s, report)
    if served.version == version and known and known.fingerprint == fingerprint_of(archive):
        return state
    outage = f"about {known.ready_s:.0f} s" if known and known.ready_s else "the time that its workers take to start"
    way_out = f"marina upgrade {name} --replace stops the old version first: {name} answers 503 for {outage}"
    if served.version == version and not known:
        raise ServerError(f"version {version} of {name} was registered without this command", way_out)
    if served.version == version:
        raise ServerError(
            f"{name} is served as version {version}, and {archive} is another archive of the same version",
            f"leave version out of the spec, or change it and pack again; {way_out}",
        )
    if version not in management.versions(name) and not _has_room(archive, state):
        raise ServerError(f"no group of cores is free for a second version of {name}", way_out)
    state = _register(project, state, {archive: version}, timeout_s, report)
    _make_default(management, name, version, timeout_s, report)
    return state


def bring_all_up_to_date(
    project: Project, state: RunState, archives: list[Path], timeout_s: float, report: Report, with_outage: bool = False
) -> RunState:
    """`bring_up_to_date` for several archives; models that the server does not have start side by side."""
    known = management_of(project, state).models()
    fresh = [archive for archive in archives if archive.stem not in known]
    if len(fresh) > 1:
        with suppress(ServerError):  # then each by itself, so that one that fails does not keep those before it out
            state = register_new(project, state, fresh, timeout_s, report)
    for archive in archives:
        state = bring_up_to_date(project, state, archive, timeout_s, report, with_outage)
    return state


def _register(
    project: Project,
    state: RunState,
    archives: dict[Path, str | None],
    timeout_s: float,
    report: Report,
    strict: bool = True,
) -> RunState:
    """Register archives, each as a version beside others if one is given, and wait until they are READY."""
    management = management_of(project, state)
    log = logs_folder(project) / WORKERS_LOG
    start, began = log_size(log), time.monotonic()
    needs = {archive: need_of(archive) for archive in archives}
    before = unpacked_archives(state)
    wanted: dict[str, str | None] = {}
    registered: dict[str, Registered] = {}
    try:
        for archive, version in archives.items():
            name = archive.stem
            registered[name] = Registered(fingerprint_of(archive), version_of(archive), 0.0)
            if version and version in management.versions(name):
                present = management.status(name, version)
                if present.ready >= max(1, present.workers):  # a person has registered it, to try it before all use it
                    continue
                management.unregister(name, version)  # left over from an upgrade that was interrupted
            report(f"registering {name}")
            wanted[name] = version
            with offered(project, archive) as file:
                management.register(file, name)
            need = needs[archive]
            if need and state.variables.get(GROUP_SIZES):
                beside = [one.name for one in needs.values() if one and one.cores == need.cores]
                management.scale(name, workers_of(need, state, beside), version)
        if wanted:
            report(f"waiting until {', '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} READY")
        wait_until_ready(management, wanted, log, start, began + timeout_s, lambda: state.process() is not None, strict)
        seconds = round(time.monotonic() - began, 1) if wanted else 0.0
        for archive in archives:
            keep(project, archive)
        fresh = {name: replace(one, ready_s=seconds) for name, one in registered.items()}
        state = replace(state, models={**state.models, **fresh})
        write_state(project, state)
    except BaseException:
        for name, version in wanted.items():
            with suppress(ServerError):
                management.unregister(name, version)
        remove_unpacked(unpacked_archives(state) - before)
        raise
    return state


def retire_others(management: Management, name: str, kept_version: str, timeout_s: float, report: Report) -> None:
    """Remove every version but one when it has answered what it has."""
    deadline = time.monotonic() + timeout_s
    for other in management.versions(name):
        if other != kept_version:
            report(f"waiting until version {other} of {name} has answered its requests")
            if not wait_until_idle(management, name, other, deadline):
                report(f"version {other} of {name} still had requests after {timeout_s:.0f} s; they get no answer")
            management.unregister(name, other)


def _replace(project: Project, state: RunState, archive: Path, timeout_s: float, report: Report) -> RunState:
    """Stop a model before its new version starts; if that fails, start the old one again. Meanwhile it answers 503."""
    name, management = archive.stem, management_of(project, state)
    current, _ = kept(project, name)
    check_beside([archive], state, replaced=True)
    refuse_new(project, management, name)
    retire_others(management, name, DRAINING, timeout_s, report)
    try:
        state = _register(project, state, {archive: version_of(archive)}, timeout_s, report)
    except BaseException:
        if current.exists() and current != archive:
            report(f"starting the old version of {name} again")
            _register(project, state, {current: version_of(current)}, timeout_s, report)
            _make_default(management, name, version_of(current), timeout_s, report)
        raise
    _make_default(management, name, version_of(archive), timeout_s, report)
    return state


def _has_room(archive: Path, state: RunState) -> bool:
    """Whether there are free cores for a second version of a model; cores of CPUs are shared, so there always are."""
    try:
        check_beside([archive], state)
    except ServerError:
        return False
    return True


def _make_default(management: Management, name: str, version: str, timeout_s: float, report: Report) -> None:
    """Let a version that is READY answer, and remove the others when they have answered what they have."""
    management.set_default(name, version)
    retire_others(management, name, version, timeout_s, report)
