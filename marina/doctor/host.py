"""Checks of the machine: Python, PyTorch, TorchServe, Java, ports and disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from handlers.worker.engines.packages import installed
from marina.errors import ServerError
from marina.findings import Finding, fails, note, ok
from marina.project import Project
from marina.server.config import check_ports
from marina.server.java import find_java_home, java_version
from marina.server.state import Ports, running

TORCHSERVE = "0.12.0"
PYTHONS = ((3, 10), (3, 14))  # from, to before
SPARE = 200 << 20  # bytes of disk for logs and sockets


def check_host(project: Project, ports: Ports) -> list[Finding]:
    """Everything that serving needs whatever the model is."""
    return [
        _python(),
        _package("torch", None),
        _package("torchserve", TORCHSERVE),
        _java(),
        _ports(project, ports),
        _disk(project),
    ]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]:
        return ok("Python", version)
    return fails("Python", version, "use Python 3.10 to 3.13")


def _package(name: str, wanted: str | None) -> Finding:
    found = installed(name)
    if found is None:
        return fails(name, "not installed", "make setup")
    if wanted and found != wanted:
        return note(name, found, f"{wanted} is what Marina is tested with")
    return ok(name, found)


def _java() -> Finding:
    try:
        home = find_java_home()
    except ServerError as error:
        return fails("Java", "none", str(error))
    return ok("Java", f"{java_version(home / 'bin' / 'java')} in {home}")


def _ports(project: Project, ports: Ports) -> Finding:
    state = running(project)
    if state:
        return note(
            "ports", f"a server of this project runs already (pid {state.pid})", "marina stop, or marina register"
        )
    try:
        check_ports(ports)
    except ServerError as error:
        return fails("ports", error.cause, "stop what uses it, or give marina serve another port")
    return ok("ports", ", ".join(str(port) for port in vars(ports).values()))


def _disk(project: Project) -> Finding:
    """TorchServe unpacks every archive that is registered."""
    need = SPARE + sum(path.stat().st_size for path in project.model_store.glob("*.mar"))
    folder = project.root if project.root.is_dir() else Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB free in {folder}, {need / 1e9:.1f} GB needed"
    return ok("disk", found) if free > need else fails("disk", found, "free some space")
