"""The state of the running server: one file under `build/run`, which exists while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from handlers.worker.placement.choice import server_of
from marina.files import write_json
from marina.project import Project

TORCHSERVE, DIRECT = "torchserve", "direct"  # the hosts
DEFAULT_HOST = TORCHSERVE  # of `marina serve`; images have that of `marina.deploy.needs.default_host`
LOOPBACK = "127.0.0.1"


def host_option(host: str) -> str:
    """What a command needs for a host, after its other words; empty for the default host."""
    return "" if host == DEFAULT_HOST else f" --host {host}"


@dataclass(frozen=True)
class Ports:
    """The ports that a server listens on."""

    inference: int = 8080
    management: int = 8081
    metrics: int = 8082
    grpc_inference: int = 7070
    grpc_management: int = 7071

    def shifted(self, offset: int) -> Ports:
        """The same ports, each so much higher."""
        return Ports(*(port + offset for port in asdict(self).values()))


@dataclass(frozen=True)
class Access:
    """Who reaches a server.

    Attributes:
        address: that the ports for requests and metrics listen on; management listens on loopback always.
        needs_token: whether requests must bring a token.
        docs: whether there is a page at /docs.
    """

    address: str = LOOPBACK
    needs_token: bool = True
    docs: bool = True


DEFAULT_ACCESS = Access()


@dataclass(frozen=True)
class Registered:
    """A model that was registered here.

    fingerprint identifies its archive; None if the archive is not one of Marina's. version is the archive's version,
    as the server knows it. ready_s is how many seconds its workers took to become READY.
    """

    fingerprint: str | None
    version: str
    ready_s: float


@dataclass(frozen=True)
class RunState:
    """A server that was started here.

    pid is 0 until there is a process. identity distinguishes the process from a later one with the same pid, whatever
    the clock does: see `server_of`. temp is the folder of its sockets and
    unpacked archives. models has the models that were registered here, by name. trusted is the
    file of trusted archives that the server was started with; None if it takes any archive of the model store.
    foreground is true if a supervisor starts the server again, so that no watch may. variables has those of
    `PLACEMENT_VARIABLES` that the server was started with. host is what carries its workers, and access says who
    reaches it.
    """

    pid: int
    identity: str
    ports: Ports
    temp: str
    models: Mapping[str, Registered] = field(default_factory=dict)
    trusted: str | None = None
    foreground: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    host: str = DEFAULT_HOST
    access: Access = DEFAULT_ACCESS

    def process(self) -> psutil.Process | None:
        """The server's process, or None if it is not running."""
        if not self.pid or server_of(self.pid) != self.identity:
            return None
        try:
            process = psutil.Process(self.pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        except psutil.Error:
            return None


def read_state(project: Project) -> RunState | None:
    """The stored state, or None; the server may have died since it was written."""
    try:
        fields = json.loads(_file(project).read_text())
        models = {name: Registered(**registered) for name, registered in fields.pop("models").items()}
        ports, access = Ports(**fields.pop("ports")), Access(**fields.pop("access", {}))
        return RunState(**fields, ports=ports, access=access, models=models)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running(project: Project) -> RunState | None:
    """The state of the running server, or None."""
    state = read_state(project)
    return state if state and state.process() else None


def write_state(project: Project, state: RunState) -> None:
    """Write the state to its file."""
    write_json(_file(project), asdict(state))


def remove_state(project: Project) -> None:
    """Delete the state file."""
    _file(project).unlink(missing_ok=True)


def logs_folder(project: Project) -> Path:
    """The folder of the logs of a server and its workers."""
    return project.run / "logs"


def _file(project: Project) -> Path:
    return project.run / "state.json"
