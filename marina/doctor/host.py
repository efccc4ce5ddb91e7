"""Checks of the machine: Python, PyTorch, both hosts, Java, ports and disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from handlers.worker.engines.packages import installed
from marina.errors import ServerError
from marina.findings import Finding, fails, note, ok
from marina.project import Project
from marina.server.hosts.torchserve.java import find_java_home, java_version
from marina.server.hosts.torchserve.release import TESTED_RELEASE, check_release
from marina.server.run.ports import check_ports
from marina.server.run.state import Ports, running

PYTHONS = ((3, 10), (3, 14))  # oldest supported version, first unsupported version
MIN_FREE_BYTES = 200 << 20  # bytes of disk for logs and sockets


def check_host(project: Project, ports: Ports) -> list[Finding]:
    """Check everything that serving needs for any model."""
    return [
        _python(),
        _package("torch", None),
        _torchserve(),
        _java(),
        _direct(),
        _ports(project, ports),
        _disk(project),
    ]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]:
        return ok("Python", version)
    return fails("Python", version, "use Python 3.10 to 3.13")


def _package(name: str, tested_version: str | None) -> Finding:
    installed_version = installed(name)
    if installed_version is None:
        return fails(name, "not installed", "make setup")
    if tested_version and installed_version != tested_version:
        return note(name, installed_version, f"{tested_version} is what Marina is tested with")
    return ok(name, installed_version)


def _torchserve() -> Finding:
    try:
        check_release()
    except ServerError as error:
        return fails("torchserve", error.cause, error.fix)
    return _package("torchserve", TESTED_RELEASE)


def _java() -> Finding:
    try:
        home = find_java_home()
    except ServerError as error:
        return fails("Java", error.cause, error.fix)
    return ok("Java", f"{java_version(home / 'bin' / 'java')} in {home}")


def _direct() -> Finding:
    """The host `direct`, which nobody needs who serves with TorchServe."""
    missing = [name for name in ("uvicorn", "httptools", "uvloop") if installed(name) is None]
    if missing:
        return note("host direct", f"{', '.join(missing)} not installed", "make setup, if you serve with --host direct")
    grpc = "" if installed("grpcio") and installed("protobuf") else ", without gRPC: grpcio or protobuf is missing"
    return ok("host direct", f"uvicorn {installed('uvicorn')}{grpc}")


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
    """Check the free disk space; TorchServe unpacks every registered archive."""
    needed_bytes = MIN_FREE_BYTES + sum(path.stat().st_size for path in project.archives())
    folder = project.root if project.root.is_dir() else Path(tempfile.gettempdir())
    free_bytes = shutil.disk_usage(folder).free
    summary = f"{free_bytes / 1e9:.1f} GB free in {folder}, {needed_bytes / 1e9:.1f} GB needed"
    return ok("disk", summary) if free_bytes > needed_bytes else fails("disk", summary, "free some space")
