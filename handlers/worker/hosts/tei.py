"""What text-embeddings-inference has under URLs of its own: `/embed_sparse`, `/embed_all`, `/tokenize` and `/info`.

https://huggingface.github.io/text-embeddings-inference
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson

from handlers.worker.errors import RequestError
from handlers.worker.values import Json

DTYPES = {"f32": "float32", "bf16": "bfloat16"}  # of precisions
KINDS = {  # of tasks
    "sentence-embedding": "embedding",
    "sparse-embedding": "embedding",
    "multi-vector-embedding": "embedding",
    "text-classification": "classifier",
    "reranking": "reranker",
}


def _body_of_list(content: bytes, model: str, marker: Mapping[str, Json]) -> bytes:
    """A body whose answer is a list for one text too.

    Args:
        content: the body that was sent.
        model: the served model, which the body may name.
        marker: a parameter that only models of the right task have.

    Raises:
        RequestError: it is no JSON object with "inputs", or its "parameters" are no object.
    """
    body = _read(content)
    if body.get("model") == model:
        del body["model"]
    inputs = body.pop("inputs")
    inputs = inputs if isinstance(inputs, list) else [inputs]
    nested = body.pop("parameters", None) or {}
    if not isinstance(nested, dict):
        raise RequestError("InvalidParameter", '"parameters" must be an object')
    parameters = {"parameters": {**nested, **marker}} if nested else marker
    return orjson.dumps({"inputs": inputs, **parameters, **body})


# of bodies for `/embed_sparse` and for `/embed_all`
sparse_body = partial(_body_of_list, marker={"format": "indices"})
multi_vector_body = partial(_body_of_list, marker={"encoding": "float"})


def tokenize_body(content: bytes, _: str) -> bytes:
    """The body for a worker of a body for `/tokenize`; RequestError if it is no JSON object with "inputs"."""
    body = _read(content)
    return orjson.dumps({"tokenize": body.pop("inputs"), **body})


def _read(content: bytes) -> dict[str, Json]:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or "inputs" not in body or "tokenize" in body:
        raise RequestError("InvalidBody", 'send a JSON object, such as {"inputs": "some text"}, without compression')
    return body


def info(descriptions: Mapping[str, Mapping[str, Any]]) -> Json:
    """The answer of `/info`, from the descriptions of models by name.

    Of several models, or of a bundle, it is {"models": {NAME: ..., "BUNDLE:MODEL": ...}}.
    """
    described: dict[str, Json] = {}
    for name, description in descriptions.items():
        for member, fields in description.get("members", {"": description}).items():
            label = f"{name}:{member}" if member else name
            described[label] = _model_info(label, {**fields, "version": description["version"]})
    return described[name] if set(described) == {name} else {"models": described}


def _model_info(name: str, description: Mapping[str, Any]) -> Json:
    heads = [labels for labels in description["labels"].values() if labels]
    labels = [str(label) for label in heads[0]] if len(heads) == 1 else []
    numbered = {str(number): label for number, label in enumerate(labels)}
    numbers = {label: number for number, label in enumerate(labels)}
    limits = description["limits"]
    return {
        "model_id": name,
        "model_sha": description["version"],
        "model_dtype": DTYPES.get(description["precision"], description["precision"]),
        "model_type": {
            KINDS.get(description["task"], description["task"]): (
                {"id2label": numbered, "label2id": numbers} if labels else {}
            )
        },
        "max_input_length": description["max_tokens"],
        "max_batch_tokens": limits["tokens"],  # of a request
        "max_client_batch_size": limits["instances"],
        "auto_truncate": description["long_text"] == "truncate",
    }
