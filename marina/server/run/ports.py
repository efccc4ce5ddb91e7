"""The ports of a server: those that a project's `config.properties` names, and those that are free."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from marina.errors import ServerError
from marina.server.run.state import LOOPBACK, Ports

HTTP, GRPC = ("inference", "management", "metrics"), ("grpc_inference", "grpc_management")  # ports of `Ports`
PORT_RANGE = (20_000, 32_000)  # above the ports of Ray's workers, below those of outgoing connections


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


def read_properties(config: Path) -> dict[str, str]:
    """The values in a config.properties, by their keys."""
    lines = config.read_text(encoding="utf-8").splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def configured_ports(config: Path) -> Ports:
    """The ports in a project's configuration; TorchServe's own where it names none.

    Raises:
        ServerError: the file cannot be read, or a port in it is no number.
    """
    try:
        values = read_properties(config)
        ports = {
            **{field: urlsplit(values[f"{field}_address"]).port for field in HTTP if f"{field}_address" in values},
            **{field: int(values[f"{field}_port"]) for field in GRPC if f"{field}_port" in values},
        }
    except OSError as error:
        raise ServerError(f"{config} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ServerError(f"{config}: a port is not a number: {error}") from None
    return Ports(**{field: port for field, port in ports.items() if port})


def check_ports(ports: Ports, used: Sequence[str] = (*HTTP, *GRPC), address: str = LOOPBACK) -> None:
    """Check that the ports of these names are free on an address, and that none is given twice.

    Raises:
        ServerError: ports are taken, or one is used twice; the message names each port and its purpose.
    """
    uses: dict[int, str] = {}
    for field in used:
        port, use = getattr(ports, field), field.replace("_", " ")
        if port in uses:
            raise ServerError(f"port {port} is given for both {uses[port]} and {use}; give each its own")
        uses[port] = use
    taken = {field: error for field in used if (error := _bind_error(getattr(ports, field), address))}
    if not taken:
        return
    names = [f"port {getattr(ports, field)} for {field.replace('_', ' ')}" for field in taken]
    options = ", ".join(f"--{_option(field)}" for field in taken)
    several = "; choose others with" if len(taken) > 1 else " or choose another with"
    raise ServerError(
        f"{', '.join(names)} cannot be used: {', '.join(dict.fromkeys(taken.values()))}",
        f"stop what uses {'them' if len(taken) > 1 else 'it'}{several} {options}, or shift all with --port-offset 1000",
    )


def _bind_error(port: int, address: str) -> str | None:
    """Why a port of an address cannot be used; None if it can."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OverflowError:
            return "no port is higher than 65535"
        except OSError as error:
            return error.strerror or str(error)
    return None


def _option(field: str) -> str:
    return "port" if field == "inference" else f"{field.replace('_', '-')}-port"
