"""Answers as typed columns: which columns a task's answers have, and the values of one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from handlers.worker.artifact import Signature, label_text
from handlers.worker.request.protocols import dump
from handlers.worker.tasks.base import Parameters
from handlers.worker.tasks.text_classification import ONLY_OUTPUT
from handlers.worker.values import Json

JSON = {"marina": "json"}  # metadata of a column whose texts are JSON documents
NUMBER = {"marina": "number"}  # of one whose texts are numbers of JSON, all of which a 64-bit float holds exactly
ERROR = pa.field("error", pa.string())
TRUNCATED = pa.field("truncated", pa.bool_())
Value = Callable[[Json], Any]  # takes a value from an answer


class Column(NamedTuple):
    """A column of answers: its name and type, and how to take its value from an answer."""

    field: pa.Field
    value: Value


def is_json(field: pa.Field) -> bool:
    """Whether the texts of a column are JSON documents."""
    return bool(field.metadata) and field.metadata.get(b"marina") in (b"json", b"number")


def is_number(field: pa.Field) -> bool:
    """Whether the texts of a column are numbers, which become 64-bit floats where a place has types."""
    return bool(field.metadata) and field.metadata.get(b"marina") == b"number"


def answer_columns(task: str, signature: Signature, parameters: Parameters, prefix: str) -> list[Column]:
    """The columns of a model's answers.

    Args:
        task: the name of the model's task.
        signature: the model's signature.
        parameters: the parameters of every row.
        prefix: for the names of the columns.
    """
    columns = COLUMNS[task](signature, parameters)
    return [Column(field.with_name(prefix + field.name), value) for field, value in columns]


def _json(name: str, value: Value = lambda answer: answer) -> Column:
    return Column(pa.field(name, pa.string(), metadata=JSON), lambda answer: dump(value(answer)).decode())


def _embedding(_: Signature, __: Parameters) -> list[Column]:
    return [Column(pa.field("embedding", pa.list_(pa.float32())), lambda answer: answer)]


def _labels(signature: Signature, parameters: Parameters) -> list[Column]:
    """The best label of each head with its score; with top_k, the ranking too."""
    if signature.outputs == ONLY_OUTPUT:
        return _head("", lambda answer: answer, parameters)
    heads = ((name, _item(name)) for name in signature.outputs)
    return [column for name, ranking in heads for column in _head(f"{name}_", ranking, parameters)]


def _head(before: str, ranking: Value, parameters: Parameters) -> list[Column]:
    """The columns of a head, whose ranking a function takes from an answer."""
    columns = [
        Column(pa.field(f"{before}label", pa.string()), lambda answer: label_text(ranking(answer)[0]["label"])),
        Column(pa.field(f"{before}score", pa.float64()), lambda answer: ranking(answer)[0]["score"]),
    ]
    if ranked(parameters):
        kind = pa.list_(pa.struct([("label", pa.string()), ("score", pa.float64())]))
        columns.append(
            Column(
                pa.field(f"{before}labels", kind),
                lambda answer: [{**entry, "label": label_text(entry["label"])} for entry in ranking(answer)],
            )
        )
    return columns


def _item(name: str) -> Value:
    return lambda answer: answer[name]


def ranked(parameters: Parameters) -> bool:
    """Whether several labels of a classification are asked for."""
    return bool(parameters["return_all_scores"] and (parameters["top_k"] or 1) > 1)


def _score(_: Signature, __: Parameters) -> list[Column]:
    return [Column(pa.field("score", pa.float64()), lambda answer: answer)]


def _entities(_: Signature, __: Parameters) -> list[Column]:
    return [_json("entities")]


def _span(_: Signature, parameters: Parameters) -> list[Column]:
    """The best answer; with top_k, all of them."""

    def best(name: str, kind: pa.DataType) -> Column:
        return Column(pa.field(name, kind), lambda answer: (answer[0] if isinstance(answer, list) else answer)[name])

    kinds = {"answer": pa.string(), "score": pa.float64(), "start": pa.int64(), "end": pa.int64()}
    columns = [best(name, kind) for name, kind in kinds.items()]
    if parameters["top_k"] > 1:
        columns.append(_json("answers", lambda answer: answer if isinstance(answer, list) else [answer]))
    return columns


def _tensors(signature: Signature, _: Parameters) -> list[Column]:
    return [_json(name, _item(name)) for name in signature.outputs]


# by task
COLUMNS: Mapping[str, Callable[[Signature, Parameters], list[Column]]] = {
    "sentence-embedding": _embedding,
    "text-classification": _labels,
    "reranking": _score,
    "token-classification": _entities,
    "question-answering": _span,
    "tensors": _tensors,
}
