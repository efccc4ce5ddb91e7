"""Reranking: a cross-encoder of sentence-transformers, or another classifier of pairs with a single value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Outputs
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.cross_encoder import cross_encoder_activation, is_cross_encoder
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import read_configuration
from marina.compiler.reference import TransformersReference
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import export_classifier
from marina.compiler.tasks.outputs import ONE_HEAD, OutputRule
from marina.engines.model import ExportedModel
from marina.errors import SourceError

HEAD = "ForSequenceClassification"
TIE_TOLERANCE = 0.01  # of the standard deviation; scores with a smaller difference have no order


def recognises(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers' CrossEncoder wrote the folder, with a single value."""
    labels = config.get("id2label")
    return names_head(HEAD)(folder, config) and is_cross_encoder(folder) and labels is not None and len(labels) == 1


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    """Export the head; SourceError if it has several values.

    A folder that sentence-transformers has not written gets the activation of its `CrossEncoder`, which for a single
    value is the sigmoid function.
    """
    labels = read_configuration(source).num_labels
    if labels != 1:
        raise SourceError(
            f"{source.title} has {labels} labels, and the task reranking needs a single value",
            "use the task text-classification, or a model that was trained with num_labels=1",
        )
    activation = cross_encoder_activation(source) or "sigmoid"
    return export_classifier(source, HEAD, attention, activation)


def agree(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Outputs],
    _: Signature,
    __: RowTokenizer,
    ___: Mapping[str, Any],
) -> Agreement:
    """The fraction of pairs of texts that have the same order."""
    expected = np.array([row.outputs[0][0] for row in rows])
    actual = np.array([output[0][0] for output in outputs])
    first, second = np.triu_indices(len(rows), 1)
    expected_differences, actual_differences = expected[first] - expected[second], actual[first] - actual[second]
    untied = np.abs(expected_differences) > TIE_TOLERANCE * expected.std()
    same_order = (
        float((np.sign(expected_differences[untied]) == np.sign(actual_differences[untied])).mean())
        if untied.any()
        else 1.0
    )
    return Agreement("same order", same_order, len(rows))


EXPORTER = TaskExporter(
    export, partial(TransformersReference, head=HEAD), agree, OutputRule((ONE_HEAD,), score=True), recognises, HEAD
)
