"""A server of MongoDB's protocol for tests, and a connection to it that can be cut.

The server is mongoeco's, or the real one that the environment variable MONGODB_URL names, with the name of a database
that tests may empty.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from tests.conftest import ROOT
from tests.ports import free_ports

ENVIRONMENT = ROOT / "build" / "mongodb"
SERVER = ROOT / "tests" / "marina" / "score" / "mongodb_server.py"


@contextmanager
def mongodb() -> Iterator[str]:
    """The URL of a database."""
    if url := os.environ.get("MONGODB_URL"):
        yield url
        return
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        pytest.skip("build/mongodb is not installed")
    (port,) = free_ports(1)
    with subprocess.Popen([python, str(SERVER), str(port)]) as process:
        try:
            _wait_for(port)
            yield f"mongodb://127.0.0.1:{port}/hr"
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        with suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        assert time.monotonic() < end
        time.sleep(0.1)


class Link:
    """A way to a server that can be cut, as a network can.

    Args:
        url: of the server.

    Attributes:
        url: the same database, by this way.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = parts.hostname or "", parts.port or 27017
        (self._port,) = free_ports(1)
        self.url = parts._replace(netloc=f"127.0.0.1:{self._port}").geturl()
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Let connections through."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_carry, args=[source, target], daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until one end is closed, and then close the other."""
    with suppress(OSError):
        while content := source.recv(1 << 16):
            target.sendall(content)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
