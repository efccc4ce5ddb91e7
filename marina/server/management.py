"""TorchServe's management API, as far as Marina needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import requests

from marina.errors import ServerError
from marina.server.tokens import loopback_session, token

TIMEOUT_S = 60


class ModelStatus(NamedTuple):
    """One registered model, as TorchServe describes it."""

    name: str
    version: str
    workers: int  # that it should have
    ready: int  # that are READY
    batch_size: int
    pending: int  # requests that wait
    pids: list[int]  # of workers that are READY


class Management:
    """Calls on the management port, with the operator's token."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._session = loopback_session()

    def register(self, archive: str) -> str:
        """Register an archive of the model store and start its workers, without waiting for them.

        Returns:
            The model's name.

        Raises:
            ServerError: TorchServe refuses; carries its reason.
        """
        self._call("POST", "/models", url=archive, synchronous="false")
        return archive.removesuffix(".mar")

    def scale(self, name: str, workers: int) -> None:
        """Set how many workers a model has, without waiting for them; ServerError if it is not registered."""
        self._call("PUT", f"/models/{name}", min_worker=str(workers), max_worker=str(workers), synchronous="false")

    def unregister(self, name: str) -> None:
        """Stop a model's workers and forget it; ServerError if it is not registered."""
        self._call("DELETE", f"/models/{name}")

    def models(self) -> list[str]:
        """The names of the registered models."""
        return [entry["modelName"] for entry in self._call("GET", "/models", limit="1000")["models"]]

    def status(self, name: str) -> ModelStatus:
        """How a model is doing; ServerError if it is not registered."""
        fields = self._call("GET", f"/models/{name}")[0]
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

    def describe(self, name: str) -> dict[str, Any]:
        """TorchServe's settings of a model, and under "customizedMetadata" what its worker says of itself.

        ServerError if it is not registered.
        """
        fields: dict[str, Any] = self._call("GET", f"/models/{name}", customized="true")[0]
        return fields

    def _call(self, method: str, path: str, **parameters: str) -> Any:
        headers = {"Authorization": f"Bearer {token(self._folder, 'management', self._port)}"}
        url = f"http://127.0.0.1:{self._port}{path}"
        try:
            response = self._session.request(method, url, params=parameters, headers=headers, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise ServerError(f"TorchServe does not answer on port {self._port}: {error}") from None
        if not response.ok:
            raise ServerError(f"TorchServe: {_message(response)}")
        return response.json()


def _message(response: requests.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}"
