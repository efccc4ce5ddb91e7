"""Waits for the process of a server, measures it, and stops it, whatever its host is."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import psutil

from marina.errors import ServerError
from marina.project import Project
from marina.server.hosts.table import HOSTS
from marina.server.run.folder import console_log
from marina.server.run.state import RunState, remove_state, running
from marina.server.run.tokens import KEY_FILE

STOP_S = 20
STARTED = "Model server started"  # in the console log, when all ports are open


def wait_until_listening(project: Project, state: RunState, deadline: float) -> None:
    """Wait until the server has opened its ports and written its tokens.

    Raises:
        ServerError: it exited (the message has the last lines of its output), or the deadline passed.
    """
    console = console_log(project)
    while not ((project.run / KEY_FILE).exists() and has_started(project)):
        if not state.process():
            raise ServerError(f"the server ended at start: {last_lines(console)}. Its logs: {console.parent}")
        if time.monotonic() > deadline:
            raise ServerError(f"the server did not open its ports in the time allowed; see {console.parent}")
        time.sleep(0.05)


def has_started(project: Project) -> bool:
    """Whether the logs in place are those of a server that has opened its ports, and not of an attempt to start one."""
    console = console_log(project)
    # that of a server that has run for long may have lost its first lines
    is_rotated = console.with_name(f"{console.name}.1").exists()
    return is_rotated or (console.exists() and STARTED in console.read_text(errors="replace"))


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


def server_memory(project: Project) -> int:
    """Bytes that the running server and its workers give back when they end; 0 if none is running."""
    state = running(project)
    return sum(own_memory(process.pid) for process in HOSTS[state.host].processes(project, state)) if state else 0


def own_memory(pid: int) -> int:
    """Bytes that a process shares with no other; 0 if it has ended."""
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except psutil.Error:
        return 0


def last_lines(log: Path) -> str:
    """The last lines of a log, joined into one line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "it printed nothing"
