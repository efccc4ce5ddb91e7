"""The state of the running TorchServe: one file under `build/run`, there while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from marina.files import write_json
from marina.project import Project


@dataclass(frozen=True)
class Ports:
    """The loopback ports that TorchServe listens on."""

    inference: int = 8080
    management: int = 8081
    metrics: int = 8082
    grpc_inference: int = 7070
    grpc_management: int = 7071


@dataclass(frozen=True)
class RunState:
    """A TorchServe that was started here.

    pid is 0 until there is a process. started is the process's start in seconds since the epoch,
    which tells it from a later process with the same pid. temp is the folder of its sockets and unpacked archives.
    archives has the fingerprint of each archive that was registered from here, by the model's name.
    """

    pid: int
    started: float
    ports: Ports
    temp: str
    archives: Mapping[str, str | None] = field(default_factory=dict)

    def process(self) -> psutil.Process | None:
        """The server's process while it runs."""
        if not self.pid:
            return None
        try:
            process = psutil.Process(self.pid)
            alive = abs(process.create_time() - self.started) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return process if alive else None


def read_state(project: Project) -> RunState | None:
    """The state on file, or None; the server that it tells of may have died since."""
    try:
        fields = json.loads(_file(project).read_text())
        return RunState(fields["pid"], fields["started"], Ports(**fields["ports"]), fields["temp"], fields["archives"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running(project: Project) -> RunState | None:
    """The state of the server that runs now, or None."""
    state = read_state(project)
    return state if state and state.process() else None


def write_state(project: Project, state: RunState) -> None:
    """Put a state on file."""
    write_json(_file(project), asdict(state))


def remove_state(project: Project) -> None:
    """Take the state off file."""
    _file(project).unlink(missing_ok=True)


def logs_folder(project: Project) -> Path:
    """Where TorchServe and its workers log."""
    return project.run / "logs"


def _file(project: Project) -> Path:
    return project.run / "state.json"
