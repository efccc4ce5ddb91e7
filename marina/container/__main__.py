"""The entry point of images: `python -m marina.container`, or with the argument `serve`, as SageMaker starts it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from handlers.worker.errors import WorkerError
from marina.archive.describe import Archive, describe_archive
from marina.console import print_error
from marina.container.probes import Health, probes
from marina.container.proxy import configuration, has_ipv6, nginx
from marina.container.refusals import metrics_of, refusals
from marina.container.settings import ContainerSettings, json_logs, read_settings
from marina.errors import DeployError, MarinaError
from marina.project import Project, find_project
from marina.server.foreground import serve_in_foreground
from marina.server.hosts.table import HOSTS
from marina.server.run.environment import serving_env
from marina.server.run.json_logs import as_json, line_printer
from marina.server.run.ports import free_ports, read_properties
from marina.server.run.state import Access, Ports, RunState
from marina.server.run.tokens import token
from marina.server.upgrade import management_of

SETTINGS = "--settings-from"  # the number of an open file
# for how long new requests still get 503 when all others are answered, before connections are closed: clients with
# open connections, and load balancers, then know
NOTICE_S = 2.0
TORCHSERVE_BYTES = 6_553_500  # its default


def main() -> int:
    """Serve until asked to end; an error is one line on standard error and 1."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    fail = print_error
    try:
        if sys.argv[1:2] != [SETTINGS]:
            fail = _fail_json if json_logs(os.environ) else fail
            _start_again(read_settings(os.environ, sys.argv[1:]))
        with os.fdopen(int(sys.argv[2])) as file:
            settings = ContainerSettings.from_json(file.read())
        fail = _fail_json if settings.json_logs else fail
        return run(find_project(), settings)
    except (MarinaError, WorkerError) as error:
        fail(str(error))
        return 1


def _fail_json(message: str) -> None:
    print(as_json(message, "ERROR"), file=sys.stderr)


def run(project: Project, settings: ContainerSettings) -> int:
    """Serve the project's archives; returns the exit code."""
    offer_archives(project, Path(settings.archives), settings.models)
    return (_behind_nginx if HOSTS[settings.host].java else _in_front)(project, settings)


def _behind_nginx(project: Project, settings: ContainerSettings) -> int:
    """Serve with TorchServe on loopback: nginx has the container's ports and tokens."""

    @contextmanager
    def front(state: RunState) -> Iterator[Callable[[], bool]]:
        archives = [describe_archive(project.model_store / f"{name}.mar") for name in state.models]
        health = Health(management_of(project, state), list(state.models))
        inference_token = token(project.run, "inference", state.ports.management)
        largest = body_bytes(project, archives)
        with (
            refusals(project.run) as counted,
            probes(health, lambda query: metrics_of(state.ports.metrics, query) + counted.metrics()) as port,
            nginx(
                configuration(settings, state.ports, port, inference_token, archives, project.run, largest)
            ) as process,
            _announced(settings, state),
        ):
            yield lambda: process.poll() is None

    limits = (settings.startup_s, settings.drain_s)
    ports, write = Ports(*free_ports(5)), line_printer(settings.json_logs)
    return serve_in_foreground(project, list(settings.models), ports, *limits, write, settings.trusted, front=front)


def _in_front(project: Project, settings: ContainerSettings) -> int:
    """Serve with a host that has the container's ports and tokens itself."""
    management, unused = free_ports(2)
    ports = Ports(settings.port, management, settings.metrics_port, settings.grpc_port, unused)
    access = Access("::" if has_ipv6() else "0.0.0.0", bool(settings.tokens), settings.docs)
    return serve_in_foreground(
        project,
        list(settings.models),
        ports,
        settings.startup_s,
        settings.drain_s,
        line_printer(settings.json_logs),
        settings.trusted,
        settings.host,
        access,
        settings.tokens,
        partial(_announced, settings),
    )


@contextmanager
def _announced(settings: ContainerSettings, state: RunState) -> Iterator[Callable[[], bool]]:
    """Say what is served; at the end, let new requests get 503 for a moment. Nothing in it can end by itself."""
    line_printer(settings.json_logs)(f"serving {', '.join(state.models)} on port {settings.port}")
    yield lambda: True
    time.sleep(NOTICE_S)


def offer_archives(project: Project, folder: Path, names: Sequence[str]) -> None:
    """Fill the model store, which must be writable, with links to the archives of a folder, which may be read-only.

    An archive that is in the model store itself stays, and is served in place of that of its name in the folder.

    Raises:
        DeployError: one of the models has no archive, or there is none at all.
    """
    paths = sorted(folder.glob("*.mar"))
    missing = set(names) - {path.stem for path in paths}
    if missing or not paths:
        raise DeployError(f"{folder} has no archive {sorted(missing)[0] if missing else ''}".strip(), "mount one there")
    store = project.model_store.resolve()
    store.mkdir(parents=True, exist_ok=True)
    if folder.resolve() == store:
        return
    for path in store.glob("*.mar"):
        if path.is_symlink():  # of an earlier start, when the folder may have had other archives
            path.unlink()
    for path in paths:
        if not (store / path.name).exists():
            (store / path.name).symlink_to(path)


def body_bytes(project: Project, archives: Sequence[Archive]) -> int:
    """The size of the largest body that any model takes, and TorchServe too by the project's configuration."""
    largest = max(member["max_body_bytes"] for archive in archives for member in archive.serving["members"].values())
    torchserve = int(read_properties(project.config).get("max_request_size", TORCHSERVE_BYTES))
    return min(int(largest), torchserve)


def _start_again(settings: ContainerSettings) -> None:
    """Start this program again without secrets in its environment, which workers could read."""
    file = os.memfd_create("settings", 0)
    os.write(file, settings.as_json().encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.execve(sys.executable, [sys.executable, "-m", "marina.container", SETTINGS, str(file)], serving_env())


if __name__ == "__main__":
    sys.exit(main())
