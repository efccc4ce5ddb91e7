"""Checks whether this machine can serve, before anything is started: `examine` runs every check.

Enters: a project, and names of archives. Leaves: findings, each with its fix. Nothing here changes a server or
a file of the project.
"""

from __future__ import annotations

from collections.abc import Sequence

from marina.doctor.archives import check_archives, open_archives
from marina.doctor.host import check_host
from marina.engines import DEFAULT, engine_of
from marina.findings import Finding
from marina.project import Project
from marina.server.process import server_memory
from marina.server.run.state import Ports


def examine(project: Project, names: list[str], engines: list[str], ports: Ports) -> list[Finding]:
    """Check the machine, the engines, and archives.

    Args:
        project: project whose model store is checked.
        names: archives to check; if empty, all archives in the store.
        engines: engines to check in addition to those of the archives; if there are neither, the default engine.
        ports: ports that must be free.
    """
    archives, findings = open_archives(project, names)
    engine_names = sorted({archive.engine for archive in archives} | set(engines)) or [DEFAULT]
    host_findings = check_host(project, ports)
    return [*host_findings, *check_engines(engine_names), *findings, *check_archives(archives, server_memory(project))]


def check_engines(names: Sequence[str]) -> list[Finding]:
    """Check the packages and cores that engines need on this machine; each finding is reported once."""
    checked_engines = sorted((engine_of(name) for name in names), key=lambda engine: engine.cores.exclusive)
    packages = [finding for engine in checked_engines for finding in engine.check_host_packages()]
    cores = [finding for engine in checked_engines for finding in engine.check_host_cores()]
    return list({finding.check: finding for finding in (*packages, *cores)}.values())
