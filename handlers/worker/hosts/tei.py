"""What text-embeddings-inference has under URLs of its own, beside predictions: `/tokenize` and `/info`.

https://huggingface.github.io/text-embeddings-inference
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from handlers.worker.errors import RequestError
from handlers.worker.values import Json

DTYPES = {"f32": "float32", "bf16": "bfloat16"}  # of precisions
KINDS = {"sentence-embedding": "embedding", "text-classification": "classifier", "reranking": "reranker"}  # of tasks


def tokenize_body(content: bytes) -> bytes:
    """The body for a worker of a body for `/tokenize`.

    Raises:
        RequestError: it is no JSON object with "inputs".
    """
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or "inputs" not in body or "tokenize" in body:
        raise RequestError("InvalidBody", 'send a JSON object, such as {"inputs": "some text"}, without compression')
    return orjson.dumps({"tokenize": body.pop("inputs"), **body})


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
