"""Text classification of one text or a pair: labels with their scores, best first.

Scores match transformers' text-classification pipeline. For a model with several named heads the
answer is an object with one entry per head. A label whose score is below its threshold comes after the labels that
have none, or reach theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import Head, Signature, label_text
from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import Parameter, choice, flag, integer, numbers_by_name
from handlers.worker.request.schema import Fields
from handlers.worker.request.text import quote
from handlers.worker.tasks.activation import activate
from handlers.worker.tasks.base import Example, Parameters, Task
from handlers.worker.tasks.columns import Column, Take, ValueKind, item, same
from handlers.worker.tokens.tokenizer import RowTokenizer, Text
from handlers.worker.values import Json

ONLY_OUTPUT = ("logits",)  # for a model without named heads


PARAMETERS: Mapping[str, Parameter] = {
    "top_k": integer(None, minimum=1, null=True),
    "function_to_apply": choice("default", "softmax", "sigmoid", "none"),
    "return_all_scores": flag(default=True),
    "thresholds": numbers_by_name('{"yes": 0.8}'),
}


def prepare(text: Text, parameters: Parameters, signature: Signature) -> Text:
    """Refuse thresholds for labels that the model does not have."""
    labels = {label_text(label) for head in signature.heads.values() for label in head.labels}
    for name in parameters["thresholds"]:
        if name not in labels:
            raise RequestError("InvalidParameter", f"thresholds: the model has no label {quote(name)}")
    return text


def answer(example: Example, signature: Signature, _: RowTokenizer) -> Json:
    ranked = {
        name: _rank(output, signature.heads[name], example.parameters)
        for name, output in zip(signature.outputs, example.outputs[0], strict=True)
    }
    return ranked["logits"] if signature.outputs == ONLY_OUTPUT else ranked


def _rank(logits: npt.NDArray[np.float32], head: Head, parameters: Parameters) -> Json:
    function = parameters["function_to_apply"]
    scores = activate(logits, head.activation if function == "default" else function)
    top_k = parameters["top_k"] if parameters["return_all_scores"] else 1
    order = ranking(scores, head, parameters["thresholds"])[:top_k]
    return [
        {"label": head.labels[i], "score": score}
        for i, score in zip(order.tolist(), scores[order].tolist(), strict=True)
    ]


def ranking(scores: npt.NDArray[np.float64], head: Head, thresholds: Mapping[str, float]) -> npt.NDArray[np.int64]:
    """The numbers of the labels, best first."""
    if not thresholds:
        return np.argsort(-scores, kind="stable")
    limits = [thresholds.get(label_text(label), -np.inf) for label in head.labels]
    return np.lexsort((-scores, scores < limits))


def columns(signature: Signature, parameters: Parameters) -> list[Column]:
    """The best label of each head with its score; with top_k, the ranking too."""
    several = parameters["return_all_scores"] and (parameters["top_k"] or 1) > 1
    if signature.outputs == ONLY_OUTPUT:
        return ranking_columns("", same, several)
    heads = ((name, item(name)) for name in signature.outputs)
    return [column for name, ranked in heads for column in ranking_columns(f"{name}_", ranked, several)]


def ranking_columns(prefix: str, ranked: Take, several: bool) -> list[Column]:
    """The best label with its score and, if there are several, the ranking, which a function takes from an answer."""
    best = [
        Column(f"{prefix}label", ValueKind.TEXT, lambda answer: label_text(ranked(answer)[0]["label"])),
        Column(f"{prefix}score", ValueKind.NUMBER, lambda answer: ranked(answer)[0]["score"]),
    ]
    if not several:
        return best

    def labels(answer: Json) -> list[Json]:
        return [{**entry, "label": label_text(entry["label"])} for entry in ranked(answer)]

    return [*best, Column(f"{prefix}labels", ValueKind.LABELS, labels)]


TASK = Task(
    name="text-classification",
    fields=Fields("text", "text_pair"),
    parameters=PARAMETERS,
    answer=answer,
    columns=columns,
    prepare=prepare,
    spec_fields=frozenset({"heads"}),
    hub_list=True,
)
