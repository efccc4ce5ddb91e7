"""nginx in front of TorchServe: the ports of a container, SageMaker's URLs, and the token."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template

from marina.archive.describe import Archive
from marina.container.settings import ContainerSettings
from marina.errors import ServerError
from marina.server.hosts.torchserve.memory import (
    GRPC_BODIES_BYTES,
    GRPC_BODY_BYTES,
    MEDIUM_BODIES,
    REQUESTS,
    large_bodies,
)
from marina.server.run.state import Ports
from marina.server.transform import execution_parameters

CONFIGURATION = Path(__file__).parent / "nginx.conf"
STOP_S = 10
MARGIN_S = 60  # for the time in the queue


class _Configuration(Template):
    """A template whose names begin with @, as nginx's own variables begin with $."""

    delimiter = "@"


def configuration(
    settings: ContainerSettings,
    ports: Ports,
    probes: int,
    torchserve_token: str,
    archives: Sequence[Archive],
    folder: Path,
    body_bytes: int,
) -> str:
    """The configuration of nginx.

    Args:
        settings: the settings of the container.
        ports: the ports of TorchServe.
        probes: the port of the probes, which have the metrics too.
        torchserve_token: TorchServe's token, which nginx sends in place of the container's token.
        archives: the served archives.
        folder: the folder for nginx's own files.
        body_bytes: the size of the largest body that any of the archives takes.
    """
    names = [archive.name for archive in archives]
    allowed = "\n".join(f'    "~^Bearer {re.escape(token)}$" 1;' for token in settings.tokens)
    response_s = max(int(archive.config["responseTimeout"]) for archive in archives)
    return _Configuration(CONFIGURATION.read_text(encoding="utf-8")).substitute(
        folder=folder,
        # a root's nginx would become a user who cannot reach the socket of refusals; SageMaker starts images as root
        user="user root;" if os.geteuid() == 0 else "",
        open=0 if settings.tokens else 1,
        allowed=allowed,
        default_model=names[0] if len(names) == 1 else "",
        models="\n".join(f'    "~^{re.escape(name)}$" "{name}";' for name in names),
        body_bytes=body_bytes,
        requests=REQUESTS,
        medium_bodies=MEDIUM_BODIES,
        large_bodies=large_bodies(body_bytes),
        grpc_body_bytes=min(body_bytes, GRPC_BODY_BYTES),
        grpc_requests=min(REQUESTS, GRPC_BODIES_BYTES // min(body_bytes, GRPC_BODY_BYTES)),
        response_s=response_s + MARGIN_S,
        names=", ".join(names),
        execution_parameters=json.dumps(execution_parameters([archive.config for archive in archives], large_bodies)),
        inference=ports.inference,
        grpc_inference=ports.grpc_inference,
        probes=probes,
        torchserve_token=torchserve_token,
        listen=listen(settings.port),
        grpc_listen=listen(settings.grpc_port),
        metrics_listen=listen(settings.metrics_port),
    )


def listen(port: int) -> str:
    """The address to listen on: with IPv6 where the container has it, as pods of some clusters have nothing else."""
    return f"[::]:{port} ipv6only=off" if has_ipv6() else str(port)


def has_ipv6() -> bool:
    """Whether the container has IPv6."""
    try:
        return bool(Path("/proc/net/if_inet6").read_text())
    except OSError:
        return False


@contextmanager
def nginx(text: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx with a configuration that is on no disk, as it holds tokens; requests that it has are answered.

    Raises:
        ServerError: nginx is not installed.
    """
    with os.fdopen(os.memfd_create("nginx.conf"), "wb") as file:
        file.write(text.encode())
        file.flush()
        command = ["nginx", "-e", "stderr", "-c", f"/proc/self/fd/{file.fileno()}"]
        try:
            process = subprocess.Popen(command, pass_fds=[file.fileno()])
        except FileNotFoundError:
            raise ServerError("nginx is not installed", "apt-get install nginx-light") from None
    try:
        yield process
    finally:
        process.send_signal(signal.SIGQUIT)  # nginx ends when all requests are answered
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
