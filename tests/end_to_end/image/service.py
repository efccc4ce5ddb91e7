"""Containers behind one address, as a Service of Kubernetes has them."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from tests.end_to_end.image.containers import Container

POLL_S = 0.3  # between two probes of a container


class Service:
    """Forwards each new connection to one of the containers that are READY, in turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # around changes of these lists, so that a probe does not undo a removal
        self._containers: list[Container] = []
        self._ready: list[Container] = []
        self._turn = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._ended = False
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        for work in (self._accept, self._probe):
            threading.Thread(target=work, daemon=True).start()

    def add(self, *containers: Container) -> None:
        """Add containers, and wait until they are READY."""
        for container in containers:
            container.wait()
        with self._lock:
            self._containers = [*self._containers, *containers]
        while not set(containers) <= set(self._ready):
            time.sleep(POLL_S)

    def remove(self, container: Container) -> None:
        """Send it no new connections, as when a pod is to end."""
        with self._lock:
            self._containers = [other for other in self._containers if other is not container]
            self._ready = [other for other in self._ready if other is not container]

    def close(self) -> None:
        self._ended = True
        self._socket.close()

    def _probe(self) -> None:
        while not self._ended:
            ready = [container for container in self._containers if container.ping() == 200]
            with self._lock:
                self._ready = [container for container in ready if container in self._containers]
            time.sleep(POLL_S)

    def _accept(self) -> None:
        while not self._ended:
            with suppress(OSError):
                client, _ = self._socket.accept()
                self._turn += 1
                ready = self._ready
                port = ready[self._turn % len(ready)].ports[0] if ready else 0
                threading.Thread(target=_forward, args=(client, port), daemon=True).start()


def _forward(client: socket.socket, port: int) -> None:
    """Forward a connection to a port until one side ends."""
    with client, suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
        answers = threading.Thread(target=_copy, args=(server, client))
        answers.start()
        _copy(client, server)
        answers.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side ends, and end the other."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
