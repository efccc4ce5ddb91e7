"""`marina serve --foreground`: the form for systemd and containers, which start a server again themselves."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import psutil

from marina.errors import ServerError
from marina.project import Project
from marina.server.lifecycle import drain, serve, stop
from marina.server.process import stop_process
from marina.server.run.environment import serving_env
from marina.server.run.logs import log_lines
from marina.server.run.state import DEFAULT_ACCESS, Access, Ports, RunState, running
from marina.server.upgrade import Report

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
EXIT_CODE_S = 5
OPTION_VARIABLES = ("MARINA_HOST", "MARINA_PORT_OFFSET")  # that `marina serve` reads


def drop_secrets() -> None:
    """Start this command again with the environment that workers may see, as workers can read that of this process.

    What this command itself reads stays, and is no secret.
    """
    environment = serving_env() | {name: os.environ[name] for name in OPTION_VARIABLES if name in os.environ}
    if dict(os.environ) != environment:
        os.execve(sys.executable, [sys.executable, "-m", "marina", *sys.argv[1:]], environment)


def serve_in_foreground(
    project: Project,
    names: list[str],
    ports: Ports | None,
    timeout_s: float,
    drain_s: float,
    write: Report,
    trusted: str | None = None,
    host: str | None = None,
    access: Access = DEFAULT_ACCESS,
    tokens: Sequence[str] = (),
    front: Callable[[RunState], AbstractContextManager[Callable[[], bool]]] = lambda _: nullcontext(lambda: True),
) -> int:
    """Serve until the server ends, or this process gets SIGTERM or Ctrl-C; writes what happens, and the logs.

    Args:
        project, names, ports, timeout_s, trusted, host, access, tokens: as for `serve`.
        write: called with each line.
        drain_s: on SIGTERM or Ctrl-C, for how many seconds the server may still answer earlier requests.
        front: starts a front, such as a proxy, when the server is ready, and ends it after the last request; yields a
            function that returns whether the front is still running. By default there is none.

    Returns:
        0 if SIGTERM or Ctrl-C ended this process, else the exit code of the server: 128 and more if a signal ended it.

    Raises:
        ServerError: a server is running already, or it does not start.
    """
    if running(project):
        raise ServerError("a server is running already", "stop it with marina stop")
    # TorchServe's launcher ends at once; without this, Java would become a child of another process
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    state = serve(project, names, ports, timeout_s, write, trusted, True, host, access, tokens)
    try:
        with front(state) as front_runs:
            code = _follow(project, state, drain_s, write, front_runs)
    except (KeyboardInterrupt, SystemExit):  # a second signal
        code = 0
    except BaseException:
        stop_process(project, state)
        raise
    try:
        stop(project)
    except (KeyboardInterrupt, SystemExit, ServerError):  # a second signal, or another command is at work
        stop_process(project, state)
    return code


def _follow(project: Project, state: RunState, drain_s: float, write: Report, front_runs: Callable[[], bool]) -> int:
    """Write the logs until the server ends, or this process gets SIGTERM or Ctrl-C; returns the exit code."""
    try:
        for line in log_lines(project, None, following=lambda: state.process() is not None and front_runs()):
            with suppress(OSError):  # a full disk, or nobody reads: the server goes on
                write(line)
    except (KeyboardInterrupt, SystemExit):
        with suppress(OSError):
            write("stopping: requests that the server has are answered, new ones refused")
        with suppress(ServerError):  # another command is at work
            drain(project, drain_s)
        return 0
    return 1 if state.process() else _exit_code(state.pid)


def _exit_code(pid: int) -> int:
    """The exit code of a child that has ended, which is never 0 for a server that nobody stopped."""
    try:
        code = psutil.Process(pid).wait(EXIT_CODE_S)
    except psutil.Error:
        return 1
    return 128 - code if code is not None and code < 0 else code or 1
