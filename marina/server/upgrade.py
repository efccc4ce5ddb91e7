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
from marina.server.archives import DRAINING, in_model_store, keep_copy, kept_copies
from marina.server.drain import refuse_new, wait_until_idle
from marina.server.management.api import Management
from marina.server.management.readiness import log_size, wait_until_ready
from marina.server.room import check_free_cores, check_room, need_of, workers_of
from marina.server.run.folder import remove_unpacked, unpacked_archives
from marina.server.run.logs import WORKERS_LOG
from marina.server.run.state import Registered, RunState, logs_folder, write_state
from marina.server.situation import STEPS, Situation, Step, situation_of

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
        check_free_cores(archives, state)
    else:
        check_room(archives)
    return _register(project, state, dict.fromkeys(archives), timeout_s, report, strict)


def bring_up_to_date(
    project: Project, state: RunState, archive: Path, timeout_s: float, report: Report, with_outage: bool = False
) -> RunState:
    """Let the server answer with an archive: register it, beside the version that it replaces, if any.

    The new version becomes the default when its workers are READY. Then the old version answers its requests, and goes.

    Args:
        project: project of the server.
        state: of the server.
        archive: the archive, with the model's name.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of the current step.
        with_outage: stop the old version first. This needs no second group of cores.

    Returns:
        The new state; the same if the server has this very archive.

    Raises:
        ServerError: a worker failed, or there is no place for it. The old version is served as before.
    """
    name, management, version = archive.stem, management_of(project, state), version_of(archive)
    situation = situation_of(management, state, archive)
    step = STEPS[situation, with_outage]
    if step is Step.NOTHING:
        return state
    if step is Step.REGISTER:
        return register_new(project, state, [archive], timeout_s, report)
    if step is Step.REPLACE:
        return _replace(project, state, archive, timeout_s, report)
    rolls_back = archive == kept_copies(project, name).previous
    command = f"marina {'rollback' if rolls_back else 'upgrade'} {name} --replace"
    hint = f"{command} stops the old version first: {name} answers 503 for {_outage(state, name)}"
    if situation is Situation.REGISTERED_BY_HAND:
        raise ServerError(f"version {version} of {name} was registered without this command", hint)
    if situation is Situation.SAME_VERSION:
        raise ServerError(
            f"{name} is served as version {version}, and {archive} is another archive of the same version",
            hint if rolls_back else f"leave version out of the spec, or change it and pack again; {hint}",
        )
    if version not in management.versions(name) and not _has_room(archive, state):
        raise ServerError(f"no group of cores is free for a second version of {name}", hint)
    state = _register(project, state, {archive: version}, timeout_s, report)
    _make_default(management, name, version, timeout_s, report)
    return state


def bring_all_up_to_date(
    project: Project, state: RunState, archives: list[Path], timeout_s: float, report: Report, with_outage: bool = False
) -> RunState:
    """`bring_up_to_date` for several archives; models that the server does not have start side by side."""
    served_names = management_of(project, state).models()
    new_archives = [archive for archive in archives if archive.stem not in served_names]
    if len(new_archives) > 1:
        with suppress(ServerError):  # then one after the other, so that a failure leaves the archives before it served
            state = register_new(project, state, new_archives, timeout_s, report)
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
    """Register archives, each beside other versions if its version is given, and wait until they are READY."""
    management = management_of(project, state)
    log = logs_folder(project) / WORKERS_LOG
    log_start, began_at = log_size(log), time.monotonic()
    needs = {archive: need_of(archive) for archive in archives}
    unpacked_before = unpacked_archives(state)
    starting: dict[str, str | None] = {}
    registered: dict[str, Registered] = {}
    try:
        for archive, version in archives.items():
            name = archive.stem
            registered[name] = Registered(fingerprint_of(archive), version_of(archive), 0.0)
            if version and version in management.versions(name):
                existing = management.status(name, version)
                if existing.ready >= max(1, existing.workers):  # registered by hand, to try it before it is the default
                    continue
                management.unregister(name, version)  # left over from an upgrade that was interrupted
            report(f"registering {name}")
            starting[name] = version
            with in_model_store(project, archive) as file:
                management.register(file, name)
            need = needs[archive]
            if need and state.variables.get(GROUP_SIZES):
                same_cores = [other.name for other in needs.values() if other and other.cores == need.cores]
                management.scale(name, workers_of(need, state, same_cores), version)
        if starting:
            report(f"waiting until {', '.join(starting)} {'is' if len(starting) == 1 else 'are'} READY")
        wait_until_ready(
            management, starting, log, log_start, began_at + timeout_s, lambda: state.process() is not None, strict
        )
        seconds = round(time.monotonic() - began_at, 1) if starting else 0.0
        for archive in archives:
            keep_copy(project, archive)
        ready_models = {name: replace(model, ready_s=seconds) for name, model in registered.items()}
        state = replace(state, models={**state.models, **ready_models})
        write_state(project, state)
    except BaseException:
        for name, version in starting.items():
            with suppress(ServerError):
                management.unregister(name, version)
        remove_unpacked(unpacked_archives(state) - unpacked_before)
        raise
    return state


def retire_others(management: Management, name: str, kept_version: str, timeout_s: float, report: Report) -> None:
    """Remove every version but `kept_version` when it has answered its requests."""
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
    old_archive = kept_copies(project, name).current
    check_free_cores([archive], state, replaced=True)
    default = management.status(name).version
    try:
        refuse_new(project, management, name)
        retire_others(management, name, DRAINING, timeout_s, report)
    except BaseException:
        with suppress(ServerError):  # it may have gone already
            management.set_default(name, default)
        raise
    try:
        state = _register(project, state, {archive: version_of(archive)}, timeout_s, report)
    except BaseException:
        if old_archive.exists() and old_archive != archive:
            report(f"starting the old version of {name} again")
            _register(project, state, {old_archive: version_of(old_archive)}, timeout_s, report)
            _make_default(management, name, version_of(old_archive), timeout_s, report)
        raise
    _make_default(management, name, version_of(archive), timeout_s, report)
    return state


def _outage(state: RunState, name: str) -> str:
    """The time that a model would not be served if its old version were stopped first."""
    registered = state.models.get(name)
    if registered and registered.ready_s:
        return f"about {registered.ready_s:.0f} s"
    return "the time that its workers take to start"


def _has_room(archive: Path, state: RunState) -> bool:
    """Whether there are free cores for a second version of a model; cores of CPUs are shared, so there always are."""
    try:
        check_free_cores([archive], state)
    except ServerError:
        return False
    return True


def _make_default(management: Management, name: str, version: str, timeout_s: float, report: Report) -> None:
    """Let a version that is READY answer, and remove the other versions when they have answered their requests."""
    management.set_default(name, version)
    retire_others(management, name, version, timeout_s, report)
