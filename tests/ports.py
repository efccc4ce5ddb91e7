"""Ports for the servers of tests: no two tests on this machine get the same one."""

from __future__ import annotations

import fcntl
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

# above those that the kernel gives to outgoing connections, so that no command under test picks one of them
PORTS = range(61_000, 65_000)
# one empty file for each port; who has it locked has the port
CLAIMS = Path(tempfile.gettempdir()) / "marina-test-ports"
_held: list[IO[str]] = []  # as long as this process lives, since servers come and go


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing uses and no other test has, until this process ends."""
    CLAIMS.mkdir(exist_ok=True)
    found: list[int] = []
    for port in random.Random().sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        if _claim(port):
            found.append(port)
    assert len(found) == count, f"fewer than {count} ports are free"
    return found


def _claim(port: int) -> bool:
    claim = (CLAIMS / str(port)).open("w")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return False
    _held.append(claim)
    return True
