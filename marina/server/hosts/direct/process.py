"""Starts the process of the host `direct`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from handlers.worker.engines.packages import programs_path
from handlers.worker.placement.choice import server_of
from marina.files import write_json
from marina.project import Project
from marina.server.hosts.direct.worker import MODULE as WORKER
from marina.server.run.environment import serving_env
from marina.server.run.folder import console_log
from marina.server.run.state import RunState, logs_folder, write_state

SERVER = "marina.server.hosts.direct"
# gRPC looks for threads at each start of a worker, and says so, unless it is told that no child uses it
GRPC_VARIABLES = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "ERROR"}


def start_direct(project: Project, state: RunState, models: Sequence[str], tokens: Sequence[str]) -> RunState:
    """Start the front without models, in its own process session; returns the state, with the process filled in.

    The tokens reach it over a pipe: workers could read its environment, its arguments and its files.
    """
    logs = logs_folder(project)
    write_json(
        config_file(project),
        {
            "ports": asdict(state.ports),
            "access": asdict(state.access),
            "models": list(models),
            "model_store": str(project.model_store),
            "temp": state.temp,
            "logs": str(logs),
        },
    )
    environment = serving_env() | {"PATH": programs_path(), "TMPDIR": state.temp, "TEMP": state.temp, **GRPC_VARIABLES}
    with console_log(project).open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", SERVER, str(config_file(project))],
            cwd=project.run,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin:  # one that has ended already says why in its log
        process.stdin.write("\n".join(tokens).encode())
    state = replace(state, pid=process.pid, identity=server_of(process.pid))
    write_state(project, state)
    return state


def direct_processes(project: Project, state: RunState) -> list[psutil.Process]:
    """The front and its workers, including orphaned ones: by what they run, and where."""
    config, temp = str(config_file(project)), Path(state.temp).resolve()
    members = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        with suppress(psutil.Error):
            is_server = SERVER in command and config in command
            if is_server or (WORKER in command and Path(process.cwd()).is_relative_to(temp)):
                members.append(process)
    return members


def config_file(project: Project) -> Path:
    """The configuration of the run."""
    return project.run / "direct.json"
