"""Starts and stops the process of a server, whatever its host is. `HOSTS` has them all."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import psutil

from marina.errors import ServerError
from marina.project import Project
from marina.server.direct.process import direct_processes, start_direct
from marina.server.management.tokens import KEY_FILE
from marina.server.run import console_log
from marina.server.state import DIRECT, TORCHSERVE, Ports, RunState, remove_state
from marina.server.torchserve.process import start_torchserve, torchserve_processes

STOP_S = 20
STARTED = "Model server started"  # in the console log, when all ports are open


class Host(NamedTuple):
    """What carries workers and speaks to clients.

    Attributes:
        start: starts its process without models, given the names of those that will be registered, and tokens that
            requests may bring beside the server's own; returns the state with its process. ServerError if it fails.
        processes: the processes of a run, orphaned ones included.
        ports: the names of the ports that it listens on.
        has_access: whether it does what an `Access` says.
    """

    start: Callable[[Project, RunState, Sequence[str], Sequence[str]], RunState]
    processes: Callable[[Project, RunState], list[psutil.Process]]
    ports: tuple[str, ...]
    has_access: bool


ALL_PORTS = tuple(field.name for field in fields(Ports))
HOSTS: Mapping[str, Host] = {
    TORCHSERVE: Host(start_torchserve, torchserve_processes, ALL_PORTS, has_access=False),
    DIRECT: Host(start_direct, direct_processes, ALL_PORTS[:4], has_access=True),
}


def start_process(project: Project, state: RunState, models: Sequence[str], tokens: Sequence[str]) -> RunState:
    """Start the process of the state's host; returns the state with the process filled in. ServerError if it fails.

    Args:
        project, state: of the run.
        models: the names of models that will be registered.
        tokens: that requests may bring beside the server's own.
    """
    return HOSTS[state.host].start(project, state, models, tokens)


def wait_until_listening(project: Project, state: RunState, deadline: float) -> None:
    """Wait until the server has opened its ports and written its tokens.

    Raises:
        ServerError: it exited (the message has the last lines of its output), or the deadline passed.
    """
    console = console_log(project)
    while not ((project.run / KEY_FILE).exists() and STARTED in console.read_text()):
        if not state.process():
            raise ServerError(f"the server ended at start: {last_lines(console)}. Its logs: {console.parent}")
        if time.monotonic() > deadline:
            raise ServerError(f"the server did not open its ports in the time allowed; see {console.parent}")
        time.sleep(0.05)


def stop_process(project: Project, state: RunState, keep_state: bool = False) -> None:
    """Stop the server and its workers, by force if necessary, and remove tokens and temporary files.

    With `keep_state`, the state stays in its file, for a restart.
    """
    find = HOSTS[state.host].processes
    processes = find(project, state)
    process = state.process()
    if process:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
        psutil.wait_procs([process], timeout=STOP_S)
    # workers that outlive the server, or all of them if it hangs
    processes = [member for member in {*processes, *find(project, state)} if member.is_running()]
    for member in processes:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(processes, timeout=STOP_S)
    shutil.rmtree(state.temp, ignore_errors=True)
    (project.run / KEY_FILE).unlink(missing_ok=True)
    if not keep_state:
        remove_state(project)


def last_lines(log: Path) -> str:
    """The last lines of a log, joined into one line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "it printed nothing"
