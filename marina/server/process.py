"""Starts and ends the TorchServe process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from marina.errors import ServerError
from marina.project import Project
from marina.server.config import write_config
from marina.server.java import find_java_home
from marina.server.state import Ports, RunState, logs_folder, remove_state, write_state
from marina.server.tokens import KEY_FILE

PID_FILE = ".model_server.pid"  # where TorchServe's launcher leaves the server's pid
SOCKET_NAME = "/.ts.sock.99999"
SOCKET_PATH_LIMIT = 107  # bytes, of a unix socket's path on Linux
STOP_S = 20
# LOCAL_RANK shifts the sockets that workers listen on; TS_CONFIG_FILE would replace our configuration
REMOVED_VARIABLES = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "TS_CONFIG_FILE")


def prepare_run(project: Project, ports: Ports) -> RunState:
    """Lay out the folders of a run and put its state on file, before there is a process.

    Whatever interrupts the start, `stop_torchserve` then knows what to look for.
    """
    _clear(project)
    logs_folder(project).mkdir(parents=True)
    project.model_store.mkdir(exist_ok=True)
    write_config(project.root / "config.properties", ports, _config(project))
    state = RunState(pid=0, started=0.0, ports=ports, temp=str(_temp_folder(project)))
    write_state(project, state)
    return state


def start_torchserve(project: Project, state: RunState) -> RunState:
    """Start TorchServe in a session of its own, with no model.

    Returns:
        The state with its process.

    Raises:
        ServerError: no Java, or the launcher failed.
    """
    java_home = find_java_home()
    logs = logs_folder(project)
    temp = Path(state.temp)
    environment = {key: value for key, value in os.environ.items() if key not in REMOVED_VARIABLES}
    environment |= {
        "JAVA_HOME": str(java_home),
        "TMPDIR": str(temp),
        "TEMP": str(temp),
        "LOG_LOCATION": str(logs),
        "METRICS_LOCATION": str(logs),
    }
    command = [
        *(sys.executable, "-m", "ts.model_server", "--start", "--ncs"),
        *("--model-store", str(project.model_store)),
        *("--ts-config", str(_config(project))),
        *("--log-config", str(project.root / "deploy" / "log4j2.xml")),
    ]
    console = logs / "console.log"
    with console.open("w") as output:
        launcher = subprocess.run(
            command, cwd=project.run, env=environment, stdout=output, stderr=output, check=False, start_new_session=True
        )
    try:
        process = psutil.Process(int((temp / PID_FILE).read_text()))
        state = replace(state, pid=process.pid, started=process.create_time())
    except (OSError, ValueError, psutil.Error):
        raise ServerError(f"TorchServe did not start (exit {launcher.returncode}): {_tail(console)}") from None
    write_state(project, state)
    return state


def wait_until_listening(project: Project, state: RunState, deadline: float) -> None:
    """Wait until TorchServe has opened its ports and written its tokens.

    Raises:
        ServerError: it ended, with the last of what it printed, or the deadline passed.
    """
    console = logs_folder(project) / "console.log"
    while not ((project.run / KEY_FILE).exists() and "Model server started" in console.read_text()):
        if not state.process():
            raise ServerError(f"TorchServe ended at start: {_tail(console)}. Its logs: {console.parent}")
        if time.monotonic() > deadline:
            raise ServerError(f"TorchServe did not open its ports in the time allowed; see {console.parent}")
        time.sleep(0.1)


def stop_torchserve(project: Project, state: RunState) -> None:
    """End TorchServe and its workers, by force if need be, and remove tokens and temporary files."""
    family = _family(project, state)
    process = state.process()
    if process:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
        psutil.wait_procs([process], timeout=STOP_S)
    # workers that outlive the server, or all of them if it hangs
    family = [member for member in {*family, *_family(project, state)} if member.is_running()]
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(family, timeout=STOP_S)
    shutil.rmtree(state.temp, ignore_errors=True)
    (project.run / KEY_FILE).unlink(missing_ok=True)
    remove_state(project)


def _family(project: Project, state: RunState) -> list[psutil.Process]:
    """The server, its launcher and its workers, also those that were left behind: known by their arguments."""
    config, socket = str(_config(project)), f"{state.temp}/.ts.sock."
    members = []
    for process in psutil.process_iter(["cmdline"]):
        if any(part == config or part.startswith(socket) for part in process.info["cmdline"] or []):
            members.append(process)
    return members


def _config(project: Project) -> Path:
    return project.run / "config.properties"


def _clear(project: Project) -> None:
    """Remove what an earlier run left."""
    for name in ("logs", "tmp"):
        shutil.rmtree(project.run / name, ignore_errors=True)
    (project.run / KEY_FILE).unlink(missing_ok=True)
    remove_state(project)


def _temp_folder(project: Project) -> Path:
    """A private temporary folder whose name is short enough for sockets."""
    temp = project.run / "tmp"
    if len(f"{temp}{SOCKET_NAME}".encode()) > SOCKET_PATH_LIMIT:
        return Path(tempfile.mkdtemp(prefix="marina-"))
    temp.mkdir()
    return temp


def _tail(log: Path) -> str:
    """The last lines of a log on one line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "it printed nothing"
