"""Starts and stops the server, and starts it again after a crash; one command at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import find_archives, kept_copies
from marina.server.drain import let_finish
from marina.server.hosts.table import HOSTS
from marina.server.management.api import Management
from marina.server.process import has_started, stop_process, wait_until_listening
from marina.server.room import check_room
from marina.server.run.folder import prepare_run
from marina.server.run.lock import Locked, one_at_a_time
from marina.server.run.ports import check_ports, configured_ports
from marina.server.run.state import DEFAULT_ACCESS, DEFAULT_HOST, Access, Ports, RunState, read_state, write_state
from marina.server.upgrade import Report, bring_all_up_to_date, register_new

START_S = 60  # seconds that Java may take to open its ports
OTHER_COMMAND_S = 1.0  # for another command to end by itself, before the server is stopped anyway


def serve(
    project: Project,
    names: list[str],
    ports: Ports | None,
    timeout_s: float,
    report: Report,
    trusted: str | None = None,
    foreground: bool = False,
    host: str | None = None,
    access: Access = DEFAULT_ACCESS,
    tokens: Sequence[str] = (),
) -> RunState:
    """Start a server with archives of the model store and wait until all their workers are READY.

    If a server is already running, the archives that it does not serve yet are registered with it, and those that
    have changed are upgraded.

    Args:
        project: project whose model store is served.
        names: models to register; if empty, all models in the store.
        ports: ports to listen on; None for those of the project's config.properties.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of the current step.
        trusted: file with the sha256 of every archive that may be served, now and later; None for no such limit.
        foreground: whether this process stays with the server.
        host: what carries workers and speaks to clients, one of `HOSTS`; None for TorchServe, or the running server's.
        access: who reaches the server.
        tokens: that requests may bring beside the server's own.

    Raises:
        ServerError: an archive is missing or not trusted, a port is taken, or a worker failed; a server that was
            started is stopped again. Also if a server is already running on other ports.
    """
    with one_at_a_time(project):
        state = read_state(project)
        if state and state.process():
            if ports not in (None, state.ports):
                raise ServerError(
                    f"a server is running already (pid {state.pid}, port {state.ports.inference})",
                    "leave the ports out to add models to it, or stop it with marina stop",
                )
            if host not in (None, state.host):
                raise ServerError(f"a server is running already, with {state.host}", "stop it with marina stop")
            if access not in (DEFAULT_ACCESS, state.access):
                raise ServerError("a server is running already, with other access", "stop it with marina stop")
            if trusted not in (None, state.trusted):
                raise ServerError("a server is running already", "--trusted is for its start; stop it with marina stop")
            archives = find_archives(project, names, state.trusted)
            return bring_all_up_to_date(project, state, archives, timeout_s, report)
        archives = find_archives(project, names, trusted)
        if state:
            stop_process(project, state)  # what an earlier run that did not end well has left
        ports = ports or configured_ports(project.config)
        host = host or DEFAULT_HOST
        if access != DEFAULT_ACCESS and not HOSTS[host].has_access:
            raise ServerError(f"{host} needs tokens, and has no page", "add --host direct, or leave the option out")
        check_ports(ports, HOSTS[host].ports, access.address)
        check_room(archives)
        report("starting the server")
        state = prepare_run(
            project, RunState(0, "", ports, "", trusted=trusted, foreground=foreground, host=host, access=access)
        )
        try:
            state = _start(project, state, timeout_s, [path.stem for path in archives], tokens)
            return register_new(project, state, archives, timeout_s, report)
        except BaseException:
            report("stopping the server")
            stop_process(project, state)
            raise


def stop(project: Project, drain_s: float = 0) -> bool:
    """Stop the server and clean up what it left behind; False if there was no server.

    Another command that is at work for longer than a moment fails, since the server goes.

    Args:
        project: project of the server.
        drain_s: for how many seconds the server may still answer earlier requests. New requests get 503.
    """
    with suppress(Locked):
        drain(project, drain_s)
    with ExitStack() as stack:
        with suppress(Locked):
            stack.enter_context(one_at_a_time(project, OTHER_COMMAND_S))
        state = read_state(project)
        if state is None:
            return False
        stop_process(project, state)
    return True


def drain(project: Project, seconds: float) -> None:
    """Let the server answer earlier requests, for so many seconds; new requests get 503."""
    with one_at_a_time(project):
        state = read_state(project)
        if state is not None and state.process() and seconds:
            management = Management(project.run, state.ports.management, time.monotonic() + seconds)
            with suppress(ServerError):
                let_finish(project, management, management.models(), seconds)


def restart(project: Project, state: RunState, timeout_s: float, report: Report) -> RunState:
    """Start a server again that has died, with the archives that it served.

    If a model cannot be served any more, the other models are still served.

    Args:
        project: project of the server.
        state: of the server that has died.
        timeout_s: seconds that workers may take to become READY.
        report: called with a description of each step, and of models that cannot be served any more.

    Raises:
        ServerError: the server does not start.
    """
    stop_process(project, state, keep_state=True)
    report("starting the server again")
    prepared = prepare_run(project, state, keep_logs=has_started(project))
    try:
        new_state = _start(project, prepared, timeout_s, list(state.models))
    except BaseException:  # its process may run, without models
        stop_process(project, read_state(project) or prepared, keep_state=True)
        raise
    archives = [kept_copies(project, name).current for name in state.models]
    try:
        return register_new(project, new_state, archives, timeout_s, report, strict=False)
    except (ServerError, OSError) as error:
        report(str(error))
    for archive in archives if len(archives) > 1 else []:
        try:
            new_state = register_new(project, new_state, [archive], timeout_s, report, strict=False)
        except (ServerError, OSError) as error:
            report(str(error))
    return new_state


def _start(
    project: Project, state: RunState, timeout_s: float, models: Sequence[str], tokens: Sequence[str] = ()
) -> RunState:
    write_state(project, state)
    state = HOSTS[state.host].start(project, state, models, tokens)
    wait_until_listening(project, state, time.monotonic() + max(timeout_s, START_S))
    return state
