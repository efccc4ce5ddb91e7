"""TorchServe's life: start it with models, ask how it is, stop it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from handlers.worker.placement import core_groups
from marina.archive import is_intact
from marina.errors import ServerError
from marina.project import Project
from marina.server.config import check_ports
from marina.server.management import Management, ModelStatus
from marina.server.process import prepare_run, start_torchserve, stop_torchserve, wait_until_listening
from marina.server.readiness import log_size, wait_until_ready
from marina.server.state import Ports, RunState, logs_folder, read_state, running

Report = Callable[[str], None]


def serve(project: Project, names: list[str], ports: Ports, timeout_s: float, report: Report) -> RunState:
    """Start TorchServe with archives of the model store and wait until all their workers are READY.

    Args:
        project: whose model store to serve.
        names: models to register; all of the store's if empty.
        ports: where to listen.
        timeout_s: seconds to become READY.
        report: called with what is being done, in words.

    Raises:
        ServerError: a server runs already, an archive is missing, a port is taken, or a worker
            failed. A server that was started is stopped again.
    """
    with _one_at_a_time(project):
        state = running(project)
        if state:
            raise ServerError(
                f"a server is running already (pid {state.pid}, port {state.ports.inference}); "
                "stop it with marina stop, or add models with marina register"
            )
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
            _register(project, state, archives, deadline, report)
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
    for archive in archives:
        deadline = time.monotonic() + timeout_s
        try:
            _register(project, state, [archive], deadline, report)
        except BaseException:
            _forget(project, state, archive.stem)
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


def _register(project: Project, state: RunState, archives: list[Path], deadline: float, report: Report) -> None:
    management = _management(project, state)
    log = logs_folder(project) / "model_log.log"
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
