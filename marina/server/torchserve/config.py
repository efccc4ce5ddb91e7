"""The configuration of one run: the project's `config.properties` with the run's own ports."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from marina.errors import ServerError
from marina.server.state import Ports

PORT_RANGE = (20_000, 32_000)  # above the ports of Ray's workers, below those of outgoing connections


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


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that are free now, in a range from which no other program takes ports by itself."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(range(*PORT_RANGE), PORT_RANGE[1] - PORT_RANGE[0]):
            probe = stack.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise ServerError(f"fewer than {count} ports between {PORT_RANGE[0]} and {PORT_RANGE[1]} are free on this machine")


def check_ports(ports: Ports) -> None:
    """Check that every port is free and that none is used twice.

    Raises:
        ServerError: a port is taken or used twice; the message names the port and its purpose.
    """
    uses: dict[int, str] = {}
    for field, port in asdict(ports).items():
        use = field.replace("_", " ")
        if port in uses:
            raise ServerError(f"port {port} is given for both {uses[port]} and {use}; give each its own")
        uses[port] = use
    for field, port in asdict(ports).items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise ServerError(
                    f"port {port} for {uses[port]} cannot be used: {error.strerror}",
                    f"stop what uses it or choose another with --{_option(field)}",
                ) from None


def _option(field: str) -> str:
    return "port" if field == "inference" else f"{field.replace('_', '-')}-port"
