"""Sparse embeddings: the answer for a text is the weights of the tokens of the vocabulary that are not 0.

They match `SparseEncoder.encode` of sentence-transformers. max_active_dims keeps the largest. The parameter `format`
says how they are written:

    indices      [{"index": 1012, "value": 0.98}, ...] in the order of the indices, as text-embeddings-inference does
    tokens       [{"token": "invoice", "value": 0.98}, ...], the largest first, as `SparseEncoder.decode` does
    sparsevec    "{1013:0.98,...}/30522", the text of pgvector's type, which counts from 1
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from handlers.worker.archive.signature import Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, flag, integer, word
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind, items, same
from handlers.worker.tasks.sentence_embedding import window
from handlers.worker.tokens.prompts import add_prompt
from handlers.worker.tokens.reader import RowReader
from handlers.worker.tokens.tokenizer import RowTokenizer, Text
from handlers.worker.values import Json, Outputs

PARAMETERS: Mapping[str, Parameter] = {
    "prompt_name": word(None),
    "truncate": flag(None),
    "truncation_direction": choice(None, "left", "right"),
    "max_active_dims": integer(None, minimum=1, null=True),
    "format": choice("indices", "tokens", "sparsevec"),
}


def prepare(text: Text, parameters: Parameters, signature: Signature) -> Text:
    return add_prompt(text, parameters["prompt_name"], signature)


def condense(outputs: Outputs) -> Outputs:
    """The weights that are not 0, their indices, and the size of the vocabulary, in place of all weights.

    float32 holds indices up to 16,777,216.
    """
    (weights,) = outputs
    indices = np.flatnonzero(weights)
    return [weights[indices], indices.astype(np.float32), np.array([len(weights)], dtype=np.float32)]


def answer(example: Example, _: Signature, reader: RowReader) -> Json:
    all_weights, places, size = example.outputs[0]
    kept = np.sort(np.argsort(-np.abs(all_weights), kind="stable")[: example.parameters["max_active_dims"]])
    weights, indices = all_weights[kept], places[kept].astype(np.int64)
    if example.parameters["format"] == "tokens":
        order = np.argsort(-weights, kind="stable")
        pairs = zip(indices[order].tolist(), weights[order].tolist(), strict=True)
        return [{"token": _token(reader, index), "value": value} for index, value in pairs]
    pairs = zip(indices.tolist(), weights.tolist(), strict=True)
    if example.parameters["format"] == "sparsevec":
        return "{" + ",".join(f"{index + 1}:{value:.9g}" for index, value in pairs) + f"}}/{size[0]:.0f}"
    return [{"index": index, "value": value} for index, value in pairs]


def _token(reader: RowReader, index: int) -> str | None:
    """The token at a place of the vocabulary; None if there is none."""
    if not isinstance(reader, RowTokenizer):
        raise RequestError("InvalidParameter", "format: this model has no tokenizer that knows tokens; ask for indices")
    token: str | None = reader.library.id_to_token(index)
    return token


def columns(_: Signature, parameters: Parameters) -> list[Column]:
    if parameters["format"] == "sparsevec":
        return [Column("embedding", ValueKind.TEXT, same)]
    values = Column("values", ValueKind.VECTOR, items("value"))
    if parameters["format"] == "tokens":
        return [Column("tokens", ValueKind.TEXTS, items("token")), values]
    return [Column("indices", ValueKind.WHOLES, items("index")), values]


TASK = Task(
    name="sparse-embedding",
    fields=Fields("text"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    prepare=prepare,
    condense=condense,
)
