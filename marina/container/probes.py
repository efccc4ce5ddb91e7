"""Answers probes: whether the server is ready, by its workers, and whether it is alive; and has the metrics of all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from marina.errors import ServerError
from marina.server.archives import DRAINING
from marina.server.management.api import Management

CACHE_S = 0.5  # for so long an answer is used again
DEAD_S = 330.0  # TorchServe gives up a worker after 300 s


class Health:
    """Asks TorchServe for the workers of every model.

    Args:
        management: the management API of the server.
        names: the names of the served models.
    """

    def __init__(self, management: Management, names: list[str]) -> None:
        self._management = management
        self._names = names
        self._lock = threading.Lock()
        self._checked_at = -CACHE_S
        self._missing: list[str] = []
        self._ready_at = time.monotonic()

    def missing(self) -> list[str]:
        """The models without a worker that can answer; all of them if TorchServe does not answer or is to end."""
        with self._lock:
            now = time.monotonic()
            if now - self._checked_at >= CACHE_S:
                self._missing = [name for name in self._names if not self._answers(name)]
                self._checked_at = time.monotonic()
                if not self._missing:
                    self._ready_at = now
            return self._missing

    def dead(self) -> bool:
        """Whether a model has been without workers for so long that only a new container helps."""
        return bool(self.missing()) and time.monotonic() - self._ready_at > DEAD_S

    def _answers(self, name: str) -> bool:
        try:
            status = self._management.status(name)
        except ServerError:
            return False
        return status.ready > 0 and status.version != DRAINING


@contextmanager
def probes(health: Health, metrics: Callable[[str], str]) -> Iterator[int]:
    """Serve /ready, /live and /metrics on a port of the loopback address, while active; gives the port.

    Args:
        health: what the first two ask.
        metrics: gives the text of the third for the query of its URL; OSError or HTTPException if there is none.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path != "/metrics":
                self._answer_probe()
                return
            try:
                self._send(200, "text/plain; version=0.0.4; charset=utf-8", metrics(url.query))
            except (OSError, HTTPException) as error:
                self._send(503, "text/plain", f"TorchServe does not answer: {error}\n")

        do_HEAD = do_GET

        def _answer_probe(self) -> None:
            missing = health.missing()
            failed = bool(missing) if self.path == "/ready" else health.dead()
            body = json.dumps({"status": "not ready" if failed else "ready", "missing": missing})
            self._send(503 if failed else 200, "application/json", body)

        def _send(self, status: int, media_type: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_request(self, *_: object) -> None:
            """No line for every probe."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
