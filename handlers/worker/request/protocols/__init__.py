"""Protocols, one file each: the only place that turns bodies into requests, and answers into bodies.

    plain.py            text/plain; {"inputs": ...} like Hugging Face's hosted API
    similarity.py       {"inputs": {"source_sentence": ..., "sentences": [...]}}, from the same API
    kserve.py           {"instances": [...]}, KServe v1
    openai.py           {"input": ...}, OpenAI's embeddings
    rerank.py           {"query": ..., "texts": [...]} and {"query": ..., "documents": [...]}
    tokens.py           {"tokenize": ...}, the tokens of texts
    open_inference.py   tensors, the Open Inference Protocol (KServe v2, Triton)

The protocol is detected from the body alone, so any URL of TorchServe serves all of them.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body, check_size
from handlers.worker.request.documents import dump
from handlers.worker.request.instances import Answered, Request, RequestLimits
from handlers.worker.request.protocols import kserve, open_inference, openai, plain, rerank, similarity, tokens
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json


class Protocol(typing.Protocol):
    """The interface of a protocol's file."""

    NAME: str

    def recognises(self, value: Json, schema: Schema, /) -> bool:
        """Whether a decoded body, text or JSON, has this protocol."""

    def read(self, body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json], /) -> Request:
        """Read the request; RequestError if it is not valid."""

    def write(self, request: Request, answers: Sequence[Answered], identity: Mapping[str, str], /) -> Json:
        """The response document for these answers."""


# a body has the first protocol that recognises it
PROTOCOLS: tuple[Protocol, ...] = (tokens, open_inference, similarity, kserve, openai, rerank, plain)


def read_request(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read one request.

    Args:
        body: from `handlers.worker.request.body.decode`.
        schema: defines the instances and parameters of the task.
        limits: the limits on one request.
        defaults: the model's own parameters.

    Raises:
        RequestError: with the reason and, if there are several instances, the instance at fault.
    """
    check_size(body.size, limits.body_bytes)
    for protocol in PROTOCOLS:
        if protocol.recognises(body.value, schema):
            return protocol.read(body, schema, limits, defaults)
    raise RequestError("InvalidBody", f"the JSON body must be an object such as {plain.EXAMPLE}")


def write_answers(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> bytes:
    """The response body for a request that was answered.

    Args:
        request: the parsed request.
        answers: one per instance, in order.
        identity: "name" and "version" of the model.
    """
    (protocol,) = [protocol for protocol in PROTOCOLS if request.protocol == protocol.NAME]
    return dump(protocol.write(request, answers, identity))
