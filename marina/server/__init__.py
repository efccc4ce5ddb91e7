"""TorchServe's life: start it with models, ask how it is, stop it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from handlers.worker.placement import core_groups
from marina.archive import fingerprint_of, is_intact
from marina.errors import ServerError
from marina.project import Project
from marina.server.config import check_ports
from marina.server.logs import WORKERS_LOG
from marina.server.management import Management, ModelStatus
from marina.server.process import prepare_run, start_torchserve, stop_torchserve, wait_until_listening
from marina.server.readiness import log_size, wait_until_ready
from marina.server.state import Ports, RunState, logs_folder, read_state, running, write_state

Report = Callable[[str], None]


def serve(project: Project, names: list[str], ports: Ports, timeout_s: float, report: Report) -> RunState:
    """Start TorchServe with archives of the model store and wait until all their workers are READY.

    Where a server runs already, the archives that it does not serve yet are registered with it.

    Args:
        project: whose model store to serve.
        names: models to register; all of the store's if empty.
        ports: where to listen.
        timeout_s: seconds to become READY.
        report: called with what is being done, in words.

    Raises:
        ServerError: an archive is missing, a port is taken, or a worker failed; a server that was
            started is stopped again. Or a server runs already, on other ports, or serves one of
            the archives as it was before it changed.
    """
    with _one_at_a_time(project):
        state = running(project)
        if state:
            _register_missing(project, state, names, ports, timeout_s, report)
            return state
        archives = find_archives(project, names)
        check_ports(ports)
        left_behind = read_state(project)
        if left_behind:
            stop_torchserve(project, left_behind)
        deadline = time.monotonic() + timeout_s
        report("starting TorchServe")
        state = prepare_run(project, ports)
        try:
            state = start_torchserve(project, state)
            wait_until_listening(project, state, deadline)
            state = _register(project, state, archives, deadline, report)
        except BaseException:
            report("stopping TorchServe")
            stop_torchserve(project, state)
            raise
    return state


def register(project: Project, names: list[str], timeout_s: float, report: Report) -> None:
    """Register archives with the running server and wait until they are READY.

    Raises:
        ServerError: no server runs, or a worker failed; that model is unregistered again.
    """
    state = require_running(project)
    archives = find_archives(project, names)
    served = _management(project, state).models()
    for archive in archives:
        if archive.stem in served:
            raise ServerError(f"model {archive.stem} is registered already; take it off first: marina unregister")
    _register_each(project, state, archives, timeout_s, report)


def scale(project: Project, name: str, workers: int, timeout_s: float, report: Report) -> None:
    """Give a model of the running server so many workers, and wait until they are READY.

    Raises:
        ServerError: no server runs, the model is not registered, or a worker failed; it then has
            as many workers as before.
    """
    state = require_running(project)
    management = _management(project, state)
    before = management.status(name).workers
    log = logs_folder(project) / WORKERS_LOG
    start, deadline = log_size(log), time.monotonic() + timeout_s
    management.scale(name, workers)
    report(f"waiting until {name} has {workers} worker{'s' * (workers > 1)} READY")
    try:
        wait_until_ready(management, [name], log, start, deadline, alive=lambda: state.process() is not None)
    except BaseException:
        with suppress(ServerError):
            management.scale(name, before)
        raise


def unregister(project: Project, names: list[str]) -> None:
    """Unregister models from the running server; ServerError if one is not registered."""
    management = _management(project, require_running(project))
    for name in names:
        management.unregister(name)


def stop(project: Project) -> bool:
    """Stop the server and whatever it left behind; False if there was none."""
    with _one_at_a_time(project):
        state = read_state(project)
        if state is None:
            return False
        stop_torchserve(project, state)
    return True


def status(project: Project) -> tuple[RunState, list[ModelStatus]] | None:
    """The running server and its models, or None."""
    state = running(project)
    if state is None:
        return None
    management = _management(project, state)
    return state, [management.status(name) for name in management.models()]


def find_problems(project: Project, names: list[str]) -> list[str]:
    """What keeps the named models, or all that are registered, from being served; empty where all is well."""
    try:
        running_now = status(project)
    except ServerError as error:
        return [str(error)]
    if running_now is None:
        return ["no server is running"]
    models = {model.name: model for model in running_now[1]}
    if not models:
        return ["the server has no model"]
    problems = [f"{name} is not registered" for name in names if name not in models]
    return problems + [
        f"{model.name} has {model.ready} of {model.workers} workers READY"
        for model in models.values()
        if (not names or model.name in names) and model.ready < max(1, model.workers)
    ]


def require_running(project: Project) -> RunState:
    """The running server's state; ServerError if none runs."""
    state = running(project)
    if state is None:
        raise ServerError("no server is running; start one with marina serve")
    return state


def find_archives(project: Project, names: list[str]) -> list[Path]:
    """The archives of the named models, or every archive of the store.

    Raises:
        ServerError: one is missing or damaged, or the store is empty.
    """
    archives = [project.model_store / f"{name}.mar" for name in names] or sorted(project.model_store.glob("*.mar"))
    if not archives:
        raise ServerError(f"{project.model_store} holds no archive; make some with marina archive")
    for archive in archives:
        if not archive.is_file():
            raise ServerError(f"{archive} does not exist; make it with marina archive {archive.stem}")
        if not is_intact(archive):
            raise ServerError(f"{archive} is damaged; make it again with marina archive {archive.stem}")
    return archives


def _register_missing(
    project: Project, state: RunState, names: list[str], ports: Ports, timeout_s: float, report: Report
) -> None:
    """Register the archives that a running server does not serve yet."""
    if ports not in (Ports(), state.ports):
        raise ServerError(
            f"a server is running already (pid {state.pid}, port {state.ports.inference})",
            "leave the ports out to add models to it, or stop it with marina stop",
        )
    served = _management(project, state).models()
    archives = find_archives(project, names)
    for archive in archives:
        name, before = archive.stem, state.archives.get(archive.stem)
        if name in served and before and before != fingerprint_of(archive):
            raise ServerError(
                f"{name} is served as it was before {archive} changed",
                f"replace it with marina unregister {name} && marina register {name}",
            )
    _register_each(project, state, [one for one in archives if one.stem not in served], timeout_s, report)


def _register_each(project: Project, state: RunState, archives: list[Path], timeout_s: float, report: Report) -> None:
    """Register archives one after the other; one whose workers fail is unregistered again."""
    for archive in archives:
        deadline = time.monotonic() + timeout_s
        try:
            state = _register(project, state, [archive], deadline, report)
        except BaseException:
            _forget(project, state, archive.stem)
            raise


def _register(project: Project, state: RunState, archives: list[Path], deadline: float, report: Report) -> RunState:
    management = _management(project, state)
    log = logs_folder(project) / WORKERS_LOG
    start = log_size(log)
    # where the environment says how cores are grouped, there is a worker for each of those groups
    groups = core_groups(None)
    names = []
    for archive in archives:
        report(f"registering {archive.stem}")
        names.append(management.register(archive.name))
        if groups:
            management.scale(archive.stem, len(groups))
    report(f"waiting until {', '.join(names)} {'is' if len(names) == 1 else 'are'} READY")
    wait_until_ready(management, names, log, start, deadline, alive=lambda: state.process() is not None)
    registered = {archive.stem: fingerprint_of(archive) for archive in archives}
    state = replace(state, archives={**state.archives, **registered})
    write_state(project, state)
    return state


def _forget(project: Project, state: RunState, name: str) -> None:
    """Unregister a model that failed to start; that it is not registered is well, too."""
    with suppress(ServerError):
        _management(project, state).unregister(name)


def _management(project: Project, state: RunState) -> Management:
    return Management(project.run, state.ports.management)


@contextmanager
def _one_at_a_time(project: Project) -> Iterator[None]:
    """Refuse to start or stop while another command does."""
    project.run.mkdir(parents=True, exist_ok=True)
    with (project.run / "serve.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerError("another marina serve or marina stop is at work; wait until it is done") from None
        yield
