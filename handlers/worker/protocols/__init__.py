"""Protocols: the one place that turns bodies into requests, and answers into bodies.

    plain.py            text/plain; {"inputs": ...} as Hugging Face's hosted API has it
    similarity.py       {"inputs": {"source_sentence": ..., "sentences": [...]}}, of the same API
    kserve.py           {"instances": [...]}, KServe v1
    open_inference.py   tensors, the Open Inference Protocol (KServe v2, Triton)

The body alone tells which protocol it is of, so that any URL of TorchServe serves all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.instances import Answered, Limits, Request
from handlers.worker.json_body import decode
from handlers.worker.protocols import kserve, open_inference, plain, similarity
from handlers.worker.task import Task

Json = Any


def read_request(
    body: Any, headers: Mapping[str, str], task: Task, limits: Limits, defaults: Mapping[str, Json]
) -> Request:
    """Read one request.

    Args:
        body: bytes or text as they were sent, JSON that TorchServe has decoded already, or None
            where there was no body.
        headers: of the request, with names in lower case.
        task: says what an instance and its parameters are.
        limits: what one request may ask for.
        defaults: the model's own parameters.

    Raises:
        RequestError: with the reason and, where it is one of several, the instance at fault.
    """
    value, tail = decode(body, headers, limits)
    if isinstance(value, str):
        return plain.read_text(value, task, limits, defaults)
    if not isinstance(value, dict):
        raise RequestError("InvalidBody", f"the JSON body must be an object such as {plain.EXAMPLE}")
    if open_inference.recognises(value):
        return open_inference.read(value, tail, task, limits, defaults)
    if similarity.recognises(value, task):
        return similarity.read(value, task, limits, defaults)
    if "instances" in value and "inputs" not in value:
        return kserve.read(value, task, limits, defaults)
    return plain.read(value, task, limits, defaults, headers)


def write_answers(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> bytes:
    """The body for a request that was answered.

    Args:
        request: as it was read.
        answers: one an instance, in order.
        identity: "name" and "version" of the model.
    """
    writers = {
        "plain": plain.write,
        "similarity": similarity.write,
        "kserve": kserve.write,
        "open-inference": open_inference.write,
    }
    return dump(writers[request.protocol](request, answers, identity))


def write_error(error: RequestError, where: str = "") -> bytes:
    """The body for a request that was refused; gRPC, which carries no status, tells it by `error`."""
    return dump({"code": error.status, "type": error.kind, "error": f"{where}{error}", "fix": KINDS[error.kind].fix})


def dump(value: Json) -> bytes:
    """JSON in UTF-8, in one line."""
    return orjson.dumps(value)
