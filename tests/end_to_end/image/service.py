"""Containers behind one address, as a Service of Kubernetes has them, and clients that count what they get."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import requests

from marina.client import Client
from marina.errors import ClientError
from tests.end_to_end.image.containers import Container

POLL_S = 0.3  # between two probes of a container
ANSWERED, LOST = "answered", "lost"


class Service:
    """Forwards each new connection to one of the containers that are READY, in turns."""

    def __init__(self) -> None:
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
        self._containers = [*self._containers, *containers]
        while not set(containers) <= set(self._ready):
            time.sleep(POLL_S)

    def remove(self, container: Container) -> None:
        """Send it no new connections, as when a pod is to end."""
        self._containers = [other for other in self._containers if other is not container]
        self._ready = [other for other in self._ready if other is not container]

    def close(self) -> None:
        self._ended = True
        self._socket.close()

    def _probe(self) -> None:
        while not self._ended:
            ready = [container for container in self._containers if container.ping() == 200]
            self._ready = [container for container in ready if container in self._containers]
            time.sleep(POLL_S)

    def _accept(self) -> None:
        while not self._ended:
            with suppress(OSError):
                client, _ = self._socket.accept()
                self._turn += 1
                ready = self._ready
                if not ready:
                    client.close()
                    continue
                port = ready[self._turn % len(ready)].ports[0]
                try:
                    server = socket.create_connection(("127.0.0.1", port))
                except OSError:
                    client.close()
                    continue
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side ends, and end the other."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Load:
    """Requests that clients send without a pause, and what they got.

    Attributes:
        token: that new requests bring.
        plain: answers to requests on connections of their own, without retries: statuses, and connections that broke.
        client: how many calls of `marina.Client`, on kept connections and with retries, were answered or lost.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self.token = token
        self.plain: Counter[str] = Counter()
        self.client: Counter[str] = Counter()

    def send_plain(self) -> None:
        while not self._ended.is_set():
            headers = {"Authorization": f"Bearer {self.token}", "Connection": "close"}
            try:
                url = f"{self._url}/predictions/intents"
                status = requests.post(url, json={"inputs": "ok thanks"}, headers=headers, timeout=60).status_code
                self.plain[str(status)] += 1
            except requests.ConnectionError:
                self.plain["connection lost"] += 1

    def send_client(self) -> None:
        while not self._ended.is_set():
            token = self.token
            with Client.http(self._url, token=token) as client:
                while self.token == token and not self._ended.is_set():
                    try:
                        client.predict("intents", ["change company address", "ok"])
                        self.client[ANSWERED] += 1
                    except ClientError as error:
                        self.client[LOST] += 1
                        print(error)

    @contextmanager
    def running(self, clients: int) -> Iterator[None]:
        """Send from as many clients of each kind."""
        with ThreadPoolExecutor(2 * clients) as pool:
            sending = [pool.submit(send) for send in (self.send_plain, self.send_client) for _ in range(clients)]
            try:
                yield
            finally:
                self._ended.set()
                for future in sending:
                    future.result()

    @contextmanager
    def event(self, name: str) -> Iterator[Counter[str]]:
        """Counts of the answers to plain requests while something happens; it is printed in the end."""
        before, client, counts = self.plain.copy(), self.client.copy(), Counter[str]()
        yield counts
        time.sleep(1)
        counts.update(self.plain - before)
        print(f"{name}: {dict(counts)} without retries, {dict(self.client - client)} by marina.Client")
