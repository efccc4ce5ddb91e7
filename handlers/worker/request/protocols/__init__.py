"""Protocols, one file each: the one place that turns bodies into requests, and answers into bodies.

    plain.py            text/plain; {"inputs": ...} as Hugging Face's hosted API has it
    similarity.py       {"inputs": {"source_sentence": ..., "sentences": [...]}}, of the same API
    kserve.py           {"instances": [...]}, KServe v1
    openai.py           {"input": ...}, OpenAI's embeddings
    open_inference.py   tensors, the Open Inference Protocol (KServe v2, Triton)

The body alone tells which protocol it is of, so that any URL of TorchServe serves all of them.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.request.body import Body, decode
from handlers.worker.request.instances import Answered, Limits, Request
from handlers.worker.request.protocols import kserve, open_inference, openai, plain, similarity
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json


class Protocol(typing.Protocol):
    """What the file of a protocol offers."""

    NAME: str

    def recognises(self, value: Json, schema: Schema, /) -> bool:
        """Whether a decoded body, text or JSON, is of this protocol."""

    def read(self, body: Body, schema: Schema, limits: Limits, defaults: Mapping[str, Json], /) -> Request:
        """The request; RequestError where it is not as it should be."""

    def write(self, request: Request, answers: Sequence[Answered], identity: Mapping[str, str], /) -> Json:
        """The document that answers it."""


# a body is of the first that recognises it
PROTOCOLS: tuple[Protocol, ...] = (open_inference, similarity, kserve, openai, plain)


def read_request(
    body: Any, headers: Mapping[str, str], schema: Schema, limits: Limits, defaults: Mapping[str, Json]
) -> Request:
    """Read one request.

    Args:
        body: bytes or text as they were sent, JSON that TorchServe has decoded already, or None
            where there was no body.
        headers: of the request, with names in lower case.
        schema: says what an instance and its parameters are.
        limits: what one request may ask for.
        defaults: the model's own parameters.

    Raises:
        RequestError: with the reason and, where it is one of several, the instance at fault.
    """
    decoded = decode(body, headers, limits)
    for protocol in PROTOCOLS:
        if protocol.recognises(decoded.value, schema):
            return protocol.read(decoded, schema, limits, defaults)
    raise RequestError("InvalidBody", f"the JSON body must be an object such as {plain.EXAMPLE}")


def write_answers(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> bytes:
    """The body for a request that was answered.

    Args:
        request: as it was read.
        answers: one an instance, in order.
        identity: "name" and "version" of the model.
    """
    (protocol,) = [protocol for protocol in PROTOCOLS if request.protocol == protocol.NAME]
    return dump(protocol.write(request, answers, identity))


def write_error(error: RequestError, where: str = "") -> bytes:
    """The body for a request that was refused; gRPC, which carries no status, tells it by `error`."""
    return dump({"code": error.status, "type": error.kind, "error": f"{where}{error}", "fix": KINDS[error.kind].fix})


def dump(value: Json) -> bytes:
    """JSON in UTF-8, in one line."""
    return orjson.dumps(value)
