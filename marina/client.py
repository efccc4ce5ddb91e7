"""Asks a served model."""

from __future__ import annotations

from typing import Any

import requests

from marina.errors import PredictError, ServerError
from marina.project import Project
from marina.server import require_running
from marina.server.tokens import token

TIMEOUT_S = 60


def predict(project: Project, model: str, inputs: Any) -> Any:
    """Ask a model of the running server.

    Args:
        project: whose server to ask.
        model: the model's name.
        inputs: one instance or a list of them: a text, or {"text": ..., "text_pair": ...}.

    Returns:
        One answer, or a list of them.

    Raises:
        PredictError: the request was refused; carries the reason and the HTTP status.
        ServerError: no server is running, or it does not answer.
    """
    state = require_running(project)
    headers = {"Authorization": f"Bearer {token(project.run, 'inference', state.ports.management)}"}
    url = f"http://127.0.0.1:{state.ports.inference}/predictions/{model}"
    try:
        response = requests.post(url, json={"inputs": inputs}, headers=headers, timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise ServerError(f"the server does not answer on port {state.ports.inference}: {error}") from None
    if not response.ok:
        raise PredictError(_reason(response), response.status_code)
    return response.json()


def _reason(response: requests.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}"
