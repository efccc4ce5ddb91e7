"""Embeddings in OpenAI's form: `{"model": ..., "input": ...}` and `{"object": "list", "data": [...], "usage": ...}`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from handlers.worker.errors import RequestError
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request, RequestLimits, check_count, read_instance
from handlers.worker.request.parameters import read_parameters_beside
from handlers.worker.request.schema import Schema
from handlers.worker.values import Json

NAME = "openai"
# the URL selects the model; the user is ignored
FIELDS = {"input", "model", "encoding_format", "user"}


def recognises(value: Json, schema: Schema) -> bool:
    """Whether a JSON body has "input", and the answers are vectors."""
    return schema.vectors and isinstance(value, dict) and "input" in value and not {"inputs", "instances"} & set(value)


def read(body: Body, schema: Schema, limits: RequestLimits, defaults: Mapping[str, Json]) -> Request:
    """Read one text or several; parameters of the task may be fields of the same object."""
    value = body.value
    parameters = read_parameters_beside(value, FIELDS, schema.parameters, defaults)
    encoding = value.get("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise RequestError("InvalidBody", '"encoding_format" must be float or base64')
    texts = value["input"]
    items = texts if isinstance(texts, list) else [texts]
    check_count(len(items), "input", limits)
    several = isinstance(texts, list)
    for number, item in enumerate(items):
        if not isinstance(item, str):
            where = f"input[{number}]" if several else "input"
            raise RequestError("InvalidInstance", f"{where} must be a text; lists of tokens are not taken")
    instances = tuple(read_instance(item, f"input[{i}]", schema.fields, limits) for i, item in enumerate(items))
    return Request(instances, parameters, NAME, {"place": "input[{}]: " if several else "", "encoding": encoding})


def write(request: Request, answers: Sequence[Answered], identity: Mapping[str, str]) -> Json:
    """The embeddings, as numbers or as base64, and the number of computed tokens.

    In base64 are little-endian float32, or the bytes of binary embeddings.
    """
    is_base64 = request.details["encoding"] == "base64"
    data = [
        {
            "object": "embedding",
            "index": number,
            "embedding": base64.b64encode(answered.answer.tobytes()).decode("ascii") if is_base64 else answered.answer,
        }
        for number, answered in enumerate(answers)
    ]
    tokens = sum(answered.tokens for answered in answers)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": identity["name"], "usage": usage}
