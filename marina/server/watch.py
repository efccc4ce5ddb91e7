"""Starts a server again that has died, as `marina serve` in the background needs: python -m marina.server.watch

It ends when the server is stopped. `marina serve --foreground` has no watch; there, systemd or Kubernetes does this.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from marina.errors import ServerError
from marina.files import locked
from marina.project import Project, find_project
from marina.server.lifecycle import restart
from marina.server.run.environment import serving_env
from marina.server.run.folder import console_log
from marina.server.run.lock import one_at_a_time
from marina.server.run.state import read_state

POLL_S = 1.0
READY_TIMEOUT_S = 300  # or three times what a model took before
MAX_PAUSE_S = 60.0  # between two attempts
CONSOLE_BYTES = 10_000_000


def start_watch(project: Project) -> None:
    """Start the watch of a server in the background, without the secrets of this process."""
    with watch_log(project).open("a") as log:
        subprocess.Popen(
            [sys.executable, "-m", "marina.server.watch"],
            cwd=project.root,
            env=serving_env(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def watch_log(project: Project) -> Path:
    """The log file of the watch, over all runs."""
    return project.run / "watch.log"


def watch(project: Project) -> None:
    """Start the project's server again whenever it dies, until it is stopped."""
    # the server has one watch; that of an earlier run is about to end
    with suppress(BlockingIOError), locked(project.run / "watch.lock", wait_s=5 * POLL_S):
        _watch(project)


def _watch(project: Project) -> None:
    """Watch the server until it is stopped, or a command starts it anew: that starts a watch with its environment."""
    identity, pause, next_at = _identity(project), POLL_S, 0.0
    while (state := read_state(project)) and not state.foreground and state.identity == identity:
        if state.process():
            pause = POLL_S
            with suppress(OSError):  # a full disk
                rotate_console(project)
        elif time.monotonic() >= next_at:
            started, identity = _start_again(project, identity)
            pause = POLL_S if started else min(2 * pause, MAX_PAUSE_S)
            next_at = time.monotonic() + pause
        time.sleep(POLL_S)


def _identity(project: Project) -> str:
    """What tells the process of the state from others; "" if there is none."""
    state = read_state(project)
    return state.identity if state else ""


def rotate_console(project: Project, max_bytes: int = CONSOLE_BYTES) -> None:
    """Keep the file of Java's output small: if it is too large, its content moves to console.log.1.

    Java has the file open for appending, and goes on at its new end.
    """
    console = console_log(project)
    if console.exists() and console.stat().st_size > max_bytes:
        shutil.copyfile(console, console.with_name(f"{console.name}.1"))
        with console.open("r+") as file:
            file.truncate()


def _start_again(project: Project, identity: str) -> tuple[bool, str]:
    """Start the server of an identity again unless a command is at work; whether that succeeded, and its identity."""
    try:
        with one_at_a_time(project, wait_s=0):
            state = read_state(project)
            if state and state.identity == identity and not state.process():
                timeout_s = max([READY_TIMEOUT_S, *(3 * model.ready_s for model in state.models.values())])
                try:
                    restart(project, state, timeout_s, lambda step: _log(project, step))
                finally:
                    identity = _identity(project)
    except (ServerError, OSError) as error:
        _log(project, str(error))
        return False, identity
    return True, identity


def _log(project: Project, line: str) -> None:
    with suppress(OSError), watch_log(project).open("a") as log:
        log.write(f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ} {line}\n")


if __name__ == "__main__":
    watch(find_project())
