"""The TorchServe host: the only file that depends on the arguments TorchServe passes to its handlers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from handlers.worker.answering.reply import error_reply
from handlers.worker.errors import RequestError
from handlers.worker.hosts.start import load_model
from handlers.worker.hosts.torchserve_metrics import Emitter
from handlers.worker.hosts.torchserve_socket import install_buffered_reads
from handlers.worker.request.documents import dump
from handlers.worker.tasks.base import Task
from handlers.worker.telemetry.tracing import REQUEST_ID, client_request_id, returned_headers

BODY_NAMES = ("body", "data")
# headers of a bidirectional stream (StreamPredictions2), and the content type of an Open Inference call
GRPC_HEADERS = {"ts_request_sequence_id", "ts_request_sequence_start", "ts_request_sequence_end", "content-type"}


class TorchServeHandler:
    """Serves an archive: TorchServe calls `initialize` once, then `handle` for every batch.

    Attributes:
        tasks: the tasks that the archive's models may have, by name.
    """

    tasks: Mapping[str, Task]

    def initialize(self, context: Any) -> None:
        """Load the models and check them on their golden rows, before TorchServe reports the worker as READY."""
        folder = Path(context.system_properties["model_dir"])
        self._model = load_model(folder, context.model_yaml_config, self.tasks)
        self._emitter = Emitter(self._model.metrics, context.model_name, context.metrics)
        self._emitter.start()
        install_buffered_reads(sys.modules)

    def handle(self, data: Sequence[Mapping[str, Any]], context: Any) -> list[bytes]:
        """Answer a batch: one body per request, with its status set in the context."""
        headers = [_headers(request, context, index) for index, request in enumerate(data)]
        # TorchServe sends describe requests alone and without a body; clients may send this header too
        if len(data) == 1 and headers[0].get("describe") == "True" and not set(BODY_NAMES) & set(data[0]):
            return [dump(self._model.describe())]
        client_ids = [client_request_id(request_headers) for request_headers in headers]
        # TorchServe creates an id for every request, and returns it with the answer
        host_ids = [context.get_request_id(index) or "" for index in range(len(data))]
        ids = [
            f"{client_id} ({host_id})" if client_id else host_id
            for client_id, host_id in zip(client_ids, host_ids, strict=True)
        ]
        bodies = [
            (_body(request, request_headers), {**request_headers, REQUEST_ID: request_id})
            for request, request_headers, request_id in zip(data, headers, ids, strict=True)
        ]
        answers = []
        # "explain" is set by the URLs /explanations, :explain and /explain
        predicted = [index for index in range(len(data)) if headers[index].get("explain") != "True"]
        replies = dict(zip(predicted, self._model.reply([bodies[index] for index in predicted]), strict=True))
        refusal = error_reply(RequestError("NoExplanation", "this model gives predictions, and no explanations"))
        for index in range(len(data)):
            reply = replies.get(index, refusal)
            context.set_response_content_type(index, reply.media_type)
            if not _over_http(headers[index]):
                # marks the last answer if the call is a stream; without it the worker's thread in TorchServe fails
                context.set_response_header(index, "ts_stream_next", "false")
            for name, value in {**reply.headers, **returned_headers(headers[index])}.items():
                context.set_response_header(index, name, value)
            if reply.status != 200:
                context.set_response_status(code=reply.status, phrase=HTTPStatus(reply.status).phrase, idx=index)
            answers.append(reply.body)
        self._emitter.counted()
        return answers


def _over_http(headers: Mapping[str, str]) -> bool:
    """Whether a request came over HTTP: for gRPC calls TorchServe passes on only its own headers."""
    return bool(headers.keys() - GRPC_HEADERS)


def _body(request: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
    """A request's body; None if it has no readable body.

    REST puts a raw body under "body", and fields of forms and URL parameters under their names.
    gRPC clients name their inputs themselves, by convention "data" or "body".
    """
    if not _over_http(headers):
        return next((request[name] for name in BODY_NAMES if name in request), None)
    return request.get("body")


def _headers(request: Mapping[str, Any], context: Any, index: int) -> dict[str, str]:
    """A request's headers by lower-case names, including the content type of its body."""
    raw_headers = context.get_all_request_header(index)
    headers = {name.lower(): value for name, value in raw_headers.items() if isinstance(value, str)}
    # TorchServe's own entry for the body; a client's header of that name replaces it with a str
    entry = next((raw_headers.get(name) for name in BODY_NAMES if name in request), None)
    if isinstance(entry, dict) and entry.get("content-type"):
        headers["content-type"] = entry["content-type"]
    return headers
