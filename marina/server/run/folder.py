"""The folder of a run: logs, state and temporary files of one server."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from handlers.worker.placement import PLACEMENT_VARIABLES
from marina.project import Project
from marina.server.run.logs import CONSOLE_LOG
from marina.server.run.state import RunState, logs_folder, write_state
from marina.server.run.tokens import KEY_FILE

SOCKET_NAME = "/.ts.sock.99999"
SOCKET_PATH_LIMIT = 107  # bytes in the path of a Unix socket on Linux
KEPT_RUNS = 5


def prepare_run(project: Project, state: RunState, keep_logs: bool = True) -> RunState:
    """Create the folders of a run and write its state to a file, before there is a process.

    If the start is interrupted, `stop_process` then knows what to look for. The logs of the last `KEPT_RUNS` runs
    are kept in build/run/earlier.

    Args:
        project: project of the server.
        state: ports and more of the new run.
        keep_logs: whether the logs in place are those of a run, and not of an attempt to start one.

    Returns:
        The state without a process, and with the folder of temporary files.
    """
    _clear(project, keep_logs)
    logs_folder(project).mkdir(parents=True, exist_ok=True)
    project.model_store.mkdir(exist_ok=True)
    variables = {name: os.environ[name] for name in PLACEMENT_VARIABLES if os.environ.get(name)}
    state = replace(state, pid=0, identity="", temp=str(_temp_folder(project)), variables=variables)
    write_state(project, state)
    return state


def console_log(project: Project) -> Path:
    """The file of the server's output."""
    return logs_folder(project) / CONSOLE_LOG


def unpacked_archives(state: RunState) -> set[Path]:
    """The folders into which the server has unpacked archives."""
    return set((Path(state.temp) / "models").glob("*"))


def remove_unpacked(folders: set[Path]) -> None:
    """Delete folders of archives; TorchServe leaves those behind whose registration failed."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(project: Project, keep_logs: bool) -> None:
    """Remove the files of an earlier run, except its logs."""
    logs = logs_folder(project)
    if logs.is_dir() and keep_logs:
        earlier = project.run / "earlier"
        earlier.mkdir(exist_ok=True)
        ended_at = datetime.fromtimestamp(logs.stat().st_mtime, timezone.utc)
        target = earlier / ended_at.strftime("%Y-%m-%dT%H-%M-%S.%f")
        shutil.rmtree(target, ignore_errors=True)
        logs.rename(target)
        for old_run in sorted(earlier.iterdir())[:-KEPT_RUNS]:
            shutil.rmtree(old_run, ignore_errors=True)
    shutil.rmtree(project.run / "tmp", ignore_errors=True)
    (project.run / KEY_FILE).unlink(missing_ok=True)


def _temp_folder(project: Project) -> Path:
    """A private temporary folder whose name is short enough for sockets."""
    temp = project.run / "tmp"
    if len(f"{temp}{SOCKET_NAME}".encode()) > SOCKET_PATH_LIMIT:
        return Path(tempfile.mkdtemp(prefix="marina-"))
    temp.mkdir()
    return temp
