"""The worker as TorchServe sees it: the only file that knows TorchServe's conventions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from handlers.worker.artifact import Artifact
from handlers.worker.calls import Outputs
from handlers.worker.errors import WorkerError
from handlers.worker.model import Model
from handlers.worker.parsing import Body, Json
from handlers.worker.settings import read_settings

ARTIFACT_FOLDER = "artifact"
# `marina serve` looks for this mark in the log to tell why a worker did not start.
FAILURE_MARK = "marina: cannot serve:"


class Handler:
    """Base of the handlers: TorchServe calls `initialize` once, then `handle` for every batch."""

    task: str
    pairs: bool

    def answer(self, outputs: Outputs, artifact: Artifact) -> Json:
        """The answer for one instance from its row's outputs; each task has its own."""
        raise NotImplementedError

    def initialize(self, context: Any) -> None:
        """Load the artifact and prove it on its golden rows, before TorchServe calls us READY."""
        # TorchServe's worker logs a line for every batch at INFO
        logging.getLogger().setLevel(logging.WARNING)
        folder = Path(context.system_properties["model_dir"]) / ARTIFACT_FOLDER
        try:
            self._model = Model(folder, read_settings(context.model_yaml_config), self)
        except WorkerError as error:
            print(f"{FAILURE_MARK} {error}", file=sys.stderr, flush=True)
            raise
        except Exception as error:
            print(f"{FAILURE_MARK} {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise

    def handle(self, data: Sequence[Mapping[str, Any]], context: Any) -> list[bytes]:
        """Answer a batch: one body a request, its status set in the context."""
        bodies = [_body(request, context, index) for index, request in enumerate(data)]
        answers = []
        for index, reply in enumerate(self._model.reply(bodies)):
            context.set_response_content_type(index, "application/json")
            if reply.status != 200:
                context.set_response_status(code=reply.status, phrase=HTTPStatus(reply.status).phrase, idx=index)
            answers.append(reply.body)
        return answers


def _body(request: Mapping[str, Any], context: Any, index: int) -> tuple[Body, str]:
    """A request's body and content type.

    REST puts a raw body under "body" and form fields under their names; gRPC clients name their
    inputs themselves, by custom "data" or "body".
    """
    for name in ("body", "data"):
        if name in request:
            # a client's own header of that name replaces the entry: then it is a str
            entry = context.get_all_request_header(index).get(name)
            content_type = entry.get("content-type") if isinstance(entry, dict) else None
            return request[name], content_type or ""
    return None, ""
