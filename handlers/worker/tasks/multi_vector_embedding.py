"""Multi-vector embeddings (late interaction, as ColBERT's): the answer for a text is a vector for each of its tokens.

They match `MultiVectorEncoder.encode_document` of sentence-transformers, or with is_query `encode_query`. Of a pair of
texts, a query and a document, the answer is their score, which is the sum over the query's vectors of the largest
product with a vector of the document ("maxsim"), or the mean ("meanmaxsim").

precision is that of the vectors: "int8" is 127 times a value of a vector of unit length. encoding is "float" for lists
of numbers, or "base64" for {"shape": [tokens, width], "data": ...} with the bytes in little-endian order.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import DOCUMENT, QUERY, Signature
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, flag
from handlers.worker.request.schema import Fields
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, ValueKind
from handlers.worker.tasks.sentence_embedding import window
from handlers.worker.tokens.prompts import in_role
from handlers.worker.tokens.tokenizer import RowTokenizer, Text
from handlers.worker.values import Instance, Json, Row

DTYPES = {"float32": "<f4", "float16": "<f2", "int8": "i1"}
PARAMETERS: Mapping[str, Parameter] = {
    "is_query": flag(default=False),
    "truncate": flag(None),
    "truncation_direction": choice(None, "left", "right"),
    "similarity": choice("maxsim", "meanmaxsim"),
    "precision": choice(*DTYPES),
    "encoding": choice("float", "base64"),
}


def expand(instance: Instance, parameters: Parameters) -> list[Instance]:
    """The text as a query or a document, or both of a pair."""
    if instance.text_pair is not None:
        return [Instance(instance.text, role=QUERY), Instance(instance.text_pair, role=DOCUMENT)]
    return [instance._replace(role=QUERY if parameters["is_query"] else DOCUMENT)]


def prepare(text: Text, parameters: Parameters, signature: Signature) -> Text:
    """A query or a document, with its prompt and its length."""
    if parameters["precision"] == "int8" and not signature.unit_length:
        raise RequestError(
            "InvalidParameter", "precision: this model's vectors are not of unit length; ask for float16"
        )
    return text if text.instance.role is None else in_role(text, signature)


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    rows, outputs, parameters = example.tokenized.rows, example.outputs, example.parameters
    if example.instance.text_pair is not None:
        query, document = (
            _vectors(row, output[0], signature, role)
            for row, output, role in zip(rows, outputs, (QUERY, DOCUMENT), strict=True)
        )
        return _score(query, document, parameters["similarity"])
    role = QUERY if parameters["is_query"] else DOCUMENT
    vectors = _in_precision(_vectors(rows[0], outputs[0][0], signature, role), parameters["precision"])
    if parameters["encoding"] == "float":
        return vectors.astype(np.float32 if vectors.dtype.kind == "f" else np.int64).tolist()
    return {"shape": list(vectors.shape), "data": base64.b64encode(vectors.tobytes()).decode("ascii")}


def _vectors(row: Row, output: npt.NDArray[np.float32], signature: Signature, role: str) -> npt.NDArray[np.float32]:
    """The vectors of the tokens that count, of shape (tokens, width)."""
    kept = ~np.isin(np.asarray(row.ids), signature.roles[role].skipped)
    return output[: len(row.ids)][kept]


def _score(query: npt.NDArray[np.float32], document: npt.NDArray[np.float32], similarity: str) -> float:
    """How well a document fits a query; 0 if none of its tokens counts."""
    if not len(query) or not len(document):
        return 0.0
    best = (query @ document.T).max(1)
    return float(best.sum() if similarity == "maxsim" else best.mean())


def _in_precision(vectors: npt.NDArray[np.float32], precision: str) -> npt.NDArray[Any]:
    if precision == "int8":
        return np.clip(np.rint(vectors * 127), -127, 127).astype(DTYPES[precision])
    return vectors.astype(DTYPES[precision])


def columns(_: Signature, parameters: Parameters) -> list[Column]:
    """The vectors, or the score of a pair."""
    kind = ValueKind.MATRIX if parameters["encoding"] == "float" else ValueKind.JSON
    return [
        Column("embedding", kind, lambda answer: None if isinstance(answer, float) else answer),
        Column("score", ValueKind.NUMBER, lambda answer: answer if isinstance(answer, float) else None),
    ]


TASK = Task(
    name="multi-vector-embedding",
    fields=Fields("text", "text_pair", pair_names=("query", "document")),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    window=window,
    prepare=prepare,
    expand=expand,
    example_variants=({"is_query": False}, {"is_query": True}),
    folders_only=True,
    ranks=True,
)
