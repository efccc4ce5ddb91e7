"""Starts and stops the TorchServe process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from handlers.worker.engines.packages import programs_path
from handlers.worker.placement.choice import server_of
from marina.errors import ServerError
from marina.project import Project
from marina.server.hosts.torchserve.java import find_java_home
from marina.server.hosts.torchserve.release import check_release
from marina.server.run.environment import serving_env
from marina.server.run.folder import console_log
from marina.server.run.state import Ports, RunState, logs_folder, write_state

PID_FILE = ".model_server.pid"  # TorchServe's launcher writes the server's pid to it
LAUNCHER, SERVER, WORKER = "ts.model_server", "org.pytorch.serve.ModelServer", "model_service_worker.py"


def start_torchserve(project: Project, state: RunState, *_: Sequence[str]) -> RunState:
    """Start TorchServe without models, in its own process session.

    Returns:
        The state, with the process filled in.

    Raises:
        ServerError: Java was not found, or the launcher failed.
    """
    check_release()
    write_config(project.config, state.ports, config_file(project))
    java_home = find_java_home()
    logs = logs_folder(project)
    temp = Path(state.temp)
    environment = serving_env() | {
        "PATH": programs_path(),
        "JAVA_HOME": str(java_home),
        "TMPDIR": str(temp),
        "TEMP": str(temp),
        "LOG_LOCATION": str(logs),
        "METRICS_LOCATION": str(logs),
        "HOSTNAME": socket.gethostname(),  # a label of TorchServe's metrics; in a pod, the pod's name
    }
    command = [
        *(sys.executable, "-m", "ts.model_server", "--start", "--ncs"),
        *("--model-store", str(project.model_store)),
        *("--ts-config", str(config_file(project))),
        *("--log-config", str(project.root / "deploy" / "log4j2.xml")),
    ]
    console = console_log(project)
    with console.open("a") as output:
        launcher = subprocess.run(
            command, cwd=project.run, env=environment, stdout=output, stderr=output, check=False, start_new_session=True
        )
    try:
        process = psutil.Process(int((temp / PID_FILE).read_text()))
        state = replace(state, pid=process.pid, identity=server_of(process.pid))
    except (OSError, ValueError, psutil.Error):
        raise ServerError(f"TorchServe did not start (exit {launcher.returncode}); see {console}") from None
    write_state(project, state)
    return state


def torchserve_processes(project: Project, state: RunState) -> list[psutil.Process]:
    """The server, its launcher and its workers, including orphaned ones.

    They are recognized by what they run, and by the configuration file or the socket among their arguments: other
    programs, such as an editor or `tail`, may have that file open.
    """
    config, socket = str(config_file(project)), f"{state.temp}/.ts.sock."
    members = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        is_server = config in command and (LAUNCHER in command or SERVER in command)
        is_worker = any(part.endswith(WORKER) for part in command) and any(part.startswith(socket) for part in command)
        if is_server or is_worker:
            members.append(process)
    return members


def config_file(project: Project) -> Path:
    """The configuration of the run."""
    return project.run / "config.properties"


def write_config(base: Path, ports: Ports, target: Path) -> None:
    """Write the project's configuration with the given ports, for use from any working directory."""
    values = {
        "inference_address": f"http://127.0.0.1:{ports.inference}",
        "management_address": f"http://127.0.0.1:{ports.management}",
        "metrics_address": f"http://127.0.0.1:{ports.metrics}",
        "grpc_inference_port": str(ports.grpc_inference),
        "grpc_management_port": str(ports.grpc_management),
    }
    lines = []
    for line in base.read_text().splitlines():
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "metrics_config":
            values[key] = str((base.parent / value).absolute())
        lines.append(f"{key}={values.pop(key)}" if key in values else line)
    lines += [f"{key}={value}" for key, value in values.items()]
    target.write_text("\n".join(lines) + "\n")
