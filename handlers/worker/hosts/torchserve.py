"""The TorchServe host: the only file that knows what its handlers are called with."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from handlers.worker.errors import RequestError, WorkerError
from handlers.worker.hosts.torchserve_metrics import Emitter
from handlers.worker.model import Model, error_reply
from handlers.worker.request.protocols import dump
from handlers.worker.settings import read_settings
from handlers.worker.tasks.base import Task

ARTIFACT_FOLDER = "artifact"
BODY_NAMES = ("body", "data")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
# of a stream of requests in both directions (StreamPredictions2), and the type of an Open Inference call's body
GRPC_HEADERS = {"ts_request_sequence_id", "ts_request_sequence_start", "ts_request_sequence_end", "content-type"}
# `marina serve` looks for this mark in the log to tell why a worker did not start.
FAILURE_MARK = "marina: cannot serve:"


class TorchServeHandler:
    """Serves one task: TorchServe calls `initialize` once, then `handle` for every batch."""

    task: Task

    def initialize(self, context: Any) -> None:
        """Load the artifact and prove it on its golden rows, before TorchServe calls us READY."""
        # TorchServe's worker logs a line for every batch at INFO
        logging.getLogger().setLevel(logging.WARNING)
        folder = Path(context.system_properties["model_dir"]) / ARTIFACT_FOLDER
        try:
            self._model = Model(folder, read_settings(context.model_yaml_config), self.task)
        except WorkerError as error:
            print(f"{FAILURE_MARK} {error}", file=sys.stderr, flush=True)
            raise
        except Exception as error:
            print(f"{FAILURE_MARK} {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise
        self._emitter = Emitter(self._model.metrics, context.model_name, context.metrics)
        self._emitter.start()

    def handle(self, data: Sequence[Mapping[str, Any]], context: Any) -> list[bytes]:
        """Answer a batch: one body a request, its status set in the context."""
        headers = [_headers(request, context, index) for index, request in enumerate(data)]
        # TorchServe sends these alone and without a body; a client may send such a header too
        if len(data) == 1 and headers[0].get("describe") == "True" and not set(BODY_NAMES) & set(data[0]):
            return [dump(self._model.describe())]
        bodies = [(_body(request, own), own) for request, own in zip(data, headers)]
        answers = []
        # the URLs /explanations, :explain and /explain
        explained = [own.get("explain") == "True" for own in headers]
        answered = iter(self._model.reply([one for one, other in zip(bodies, explained) if not other]))
        refusal = error_reply(RequestError("NoExplanation", "this model gives predictions, and no explanations"))
        replies = [refusal if other else next(answered) for other in explained]
        for index, reply in enumerate(replies):
            context.set_response_content_type(index, "application/json")
            if not _over_http(headers[index]):
                # the last answer, where the call is a stream; without it the worker's thread in TorchServe fails
                context.set_response_header(index, "ts_stream_next", "false")
            for name, value in reply.headers.items():
                context.set_response_header(index, name, value)
            if reply.status != 200:
                context.set_response_status(code=reply.status, phrase=HTTPStatus(reply.status).phrase, idx=index)
            answers.append(reply.body)
        self._emitter.counted()
        return answers


def _over_http(headers: Mapping[str, str]) -> bool:
    """Whether a request came over HTTP: TorchServe hands over no headers of gRPC calls but its own."""
    return bool(headers.keys() - GRPC_HEADERS)


def _body(request: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
    """A request's body; None where there is none that can be read.

    REST puts a raw body under "body", and form fields and the parameters of the URL under their names;
    gRPC clients name their inputs themselves, by custom "data" or "body".
    """
    if not _over_http(headers):
        return next((request[name] for name in BODY_NAMES if name in request), None)
    is_form = headers.get("content-type", "").lower().startswith(FORMS)
    return None if is_form else request.get("body")


def _headers(request: Mapping[str, Any], context: Any, index: int) -> dict[str, str]:
    """A request's headers by lower-case names, and the content type of its body."""
    found = context.get_all_request_header(index)
    headers = {name.lower(): value for name, value in found.items() if isinstance(value, str)}
    # TorchServe's own entry for the body; a client's header of that name replaces it with a str
    entry = next((found.get(name) for name in BODY_NAMES if name in request), None)
    if isinstance(entry, dict) and entry.get("content-type"):
        headers["content-type"] = entry["content-type"]
    return headers
