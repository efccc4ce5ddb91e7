"""The parts of TorchServe's management API that Marina needs; every host of `marina serve` has them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import requests

from marina.errors import ServerError
from marina.server.run.tokens import loopback_session, token

TIMEOUT_S = 60


class ModelStatus(NamedTuple):
    """One registered model, as reported by the server."""

    name: str
    version: str
    workers: int  # configured
    ready: int  # workers that are READY
    batch_size: int
    pending: int  # requests in the queue
    pids: list[int]  # of the workers that are READY


class Management:
    """Calls to the management port, with the management token.

    Args:
        folder: where the server has its tokens.
        port: the management port.
        deadline: no call takes longer, in seconds of `time.monotonic`; a call after the deadline fails.
    """

    def __init__(self, folder: Path, port: int, deadline: float = math.inf) -> None:
        self._folder = folder
        self._port = port
        self._deadline = deadline
        self._session = loopback_session()

    def register(self, archive: str, name: str) -> None:
        """Register an archive of the model store, given by its file name there, and start its workers without waiting.

        ServerError if the server refused; the message contains its reason.
        """
        self._call("POST", "/models", {"url": archive, "synchronous": "false", "model_name": name})

    def scale(self, name: str, workers: int, version: str | None = None) -> None:
        """Set the number of workers of a model, without waiting for them; ServerError if it is not registered."""
        numbers = {"min_worker": str(workers), "max_worker": str(workers)}
        self._call("PUT", _path(name, version), {"synchronous": "false", **numbers})

    def set_default(self, name: str, version: str) -> None:
        """Let a version answer the requests that name no version; ServerError if it is not registered."""
        self._call("PUT", f"{_path(name, version)}/set-default")

    def unregister(self, name: str, version: str | None = None) -> None:
        """Unregister a model, or one version of it, and stop its workers; ServerError if it is not registered."""
        self._call("DELETE", _path(name, version))

    def models(self) -> list[str]:
        """The names of the registered models."""
        names: list[str] = []
        page = {"nextPageToken": "0"}
        while page.get("nextPageToken"):  # TorchServe gives 100 at most
            page = self._call("GET", "/models", {"limit": "100", "next_page_token": page["nextPageToken"]})
            names += [entry["modelName"] for entry in page["models"]]
        return names

    def versions(self, name: str) -> list[str]:
        """The registered versions of a model; ServerError if it is not registered."""
        return [fields["modelVersion"] for fields in self._call("GET", _path(name, "all"))]

    def status(self, name: str, version: str | None = None) -> ModelStatus:
        """The status of a model, or of one version of it; ServerError if it is not registered."""
        fields = self._call("GET", _path(name, version))[0]
        ready = [worker["pid"] for worker in fields["workers"] if worker["status"] == "READY"]
        return ModelStatus(
            name=name,
            version=fields["modelVersion"],
            workers=fields["minWorkers"],
            ready=len(ready),
            batch_size=fields["batchSize"],
            pending=fields["jobQueueStatus"]["pendingRequests"],
            pids=ready,
        )

    def describe(self, name: str, version: str | None = None, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """The settings of a model, with the worker's own description under "customizedMetadata".

        ServerError if it is not registered.
        """
        fields: dict[str, Any] = self._call("GET", _path(name, version), {"customized": "true"}, timeout_s)[0]
        return fields

    def _call(
        self, method: str, path: str, parameters: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> Any:
        headers = {"Authorization": f"Bearer {token(self._folder, 'management', self._port)}"}
        url = f"http://127.0.0.1:{self._port}{path}"
        timeout_s = min(timeout_s, self._deadline - time.monotonic())
        if timeout_s <= 0:
            raise ServerError("the server did not answer in the time allowed")
        try:
            response = self._session.request(method, url, params=parameters, headers=headers, timeout=timeout_s)
        except requests.RequestException as error:
            raise ServerError(f"the server does not answer on port {self._port}: {error}") from None
        if not response.ok:
            raise ServerError(f"the server answered: {_message(response)}")
        return response.json()


def _path(name: str, version: str | None) -> str:
    return f"/models/{quote(name)}" + (f"/{quote(version)}" if version else "")


def _message(response: requests.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}"
