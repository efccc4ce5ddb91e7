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
    """The number of answers by status, which nginx sends as lines of syslog.

    Args:
        lines: the socket that they come to.
    """

    def __init__(self, lines: socket.socket) -> None:
        self._counts: Counter[str] = Counter()
        self._lines = lines

    def read(self) -> None:
        """Count until the socket is shut down."""
        while line := self._lines.recv(1024):
            self._counts[line.rsplit(b" ", 1)[-1].decode("ascii", "replace")] += 1

    def metrics(self) -> str:
        """The counts in Prometheus' text format."""
        counts = dict(self._counts)
        lines = [f'{NAME}{{status="{status}"}} {count}' for status, count in sorted(counts.items())]
        about = f"# HELP {NAME} Requests that the container refused before TorchServe.\n# TYPE {NAME} counter\n"
        return about + "".join(f"{line}\n" for line in lines)


@contextmanager
def refusals(folder: Path) -> Iterator[Refusals]:
    """Count while active what nginx sends, which drops lines that are not taken at once; its files are in a folder."""
    path = folder / SOCKET
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lines:
        lines.bind(str(path))
        path.chmod(0o600)  # only this user can write to it
        counted = Refusals(lines)
        thread = threading.Thread(target=counted.read, name="refusals", daemon=True)
        thread.start()
        try:
            yield counted
        finally:
            lines.shutdown(socket.SHUT_RDWR)  # ends `read`
            thread.join(TIMEOUT_S)
            path.unlink(missing_ok=True)


def metrics_of(port: int, query: str) -> str:
    """TorchServe's metrics, from its port on loopback, for the query of a URL.

    Raises:
        OSError, HTTPException: it does not answer.
    """
    with urlopen(f"http://127.0.0.1:{port}/metrics{query and '?'}{query}", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())
