"""Clients that send all the time, and count what they get."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import requests

from marina.client import Client
from marina.errors import ClientError

KIND_CHARS = 80  # of a refusal's body, which begins with its kind
ANSWERED, LOST = "answered", "lost"


class Load:
    """Requests that clients send without a pause, and what they got.

    Attributes:
        token: that new requests bring.
        plain: answers to requests on connections of their own, without retries: statuses, with why a request was
            refused, and connections that broke.
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
                answer = requests.post(url, json={"inputs": "ok thanks"}, headers=headers, timeout=60)
                kind = "" if answer.ok else f" {answer.text[:KIND_CHARS]}"
                self.plain[f"{answer.status_code}{kind}"] += 1
            except requests.RequestException:
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
        # `dict` copies at once, while other threads count
        before, client, counts = dict(self.plain), dict(self.client), Counter[str]()
        yield counts
        time.sleep(1)
        counts.update(_since(before, dict(self.plain)))
        print(f"{name}: {dict(counts)} without retries, {_since(client, dict(self.client))} by marina.Client")


def _since(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """How much more there is of each."""
    more = {key: number - before.get(key, 0) for key, number in now.items()}
    return {key: number for key, number in more.items() if number}
