"""Counts what nginx answers itself in place of TorchServe, and adds it to TorchServe's metrics."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

SOCKET = "refusals"  # in the folder of nginx's own files
NAME = "marina_refusals_total"
TIMEOUT_S = 10


class Refusals:
    """The number of answers by status, which nginx sends as lines of syslog to a socket.

    Args:
        path: of the socket, which only this user can write to; nginx drops lines that it does not take at once.
    """

    def __init__(self, path: Path) -> None:
        self._counts: Counter[str] = Counter()
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o600)

    def read(self) -> None:
        """Count until the socket is closed."""
        while line := self._socket.recv(1024):
            self._counts[line.rsplit(b" ", 1)[-1].decode("ascii", "replace")] += 1

    def metrics(self) -> str:
        """The counts in Prometheus' text format."""
        counts = dict(self._counts)
        lines = [f'{NAME}{{status="{status}"}} {count}' for status, count in sorted(counts.items())]
        about = f"# HELP {NAME} Requests that the container refused before TorchServe.\n# TYPE {NAME} counter\n"
        return about + "".join(f"{line}\n" for line in lines)

    def end(self) -> None:
        """End `read`."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket, after `read` has ended."""
        self._socket.close()


@contextmanager
def refusals(folder: Path) -> Iterator[Refusals]:
    """Count while active what nginx sends, whose own files are in a folder."""
    path = folder / SOCKET
    counted = Refusals(path)
    thread = threading.Thread(target=counted.read, name="refusals", daemon=True)
    thread.start()
    try:
        yield counted
    finally:
        counted.end()
        thread.join(TIMEOUT_S)
        counted.close()
        path.unlink(missing_ok=True)


def metrics_of(port: int, query: str) -> str:
    """TorchServe's metrics, from its port on loopback, for the query of a URL.

    Raises:
        OSError, HTTPException: it does not answer.
    """
    with urlopen(f"http://127.0.0.1:{port}/metrics{query and '?'}{query}", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())
