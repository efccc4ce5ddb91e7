"""Token classification: a transformers head; agreement is measured on the entities found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tasks.token_classification import TASK
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Outputs
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.reference import TransformersReference
from marina.compiler.tasks.agreement import f1, spans_of
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import export_classifier
from marina.compiler.tasks.outputs import ONE_HEAD, OutputRule
from marina.engines.model import ExportedModel
from marina.errors import SourceError

HEAD = "ForTokenClassification"


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    """Export the head that the model was trained with."""
    exported = export_classifier(source, HEAD, attention, activation="softmax", per_token=True)
    if exported.tokenizer.padding_side == "left":
        # transformers' pipeline pads the last window of a long text there, which moves the positions of its tokens
        raise SourceError(
            f"{source.title}: its tokenizer pads on the left, which changes the entities that transformers finds in "
            "windows",
            'set "padding_side" to "right" in tokenizer_config.json',
        )
    return exported


def agree(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Outputs],
    signature: Signature,
    tokenizer: RowTokenizer,
    parameters: Mapping[str, Any],
) -> Agreement:
    """F1 score of the entities of all texts together."""
    agreement_parameters = {**parameters, "aggregation_strategy": "simple"}
    expected = spans_of(rows, [row.outputs for row in rows], signature, TASK, tokenizer, agreement_parameters)
    actual = spans_of(rows, outputs, signature, TASK, tokenizer, agreement_parameters)
    return Agreement("F1 of entities", f1(expected, actual), len(rows))


EXPORTER = TaskExporter(
    export,
    partial(TransformersReference, head=HEAD),
    agree,
    OutputRule((ONE_HEAD,), dims=3, labels=True, per_token=True),
    names_head(HEAD),
    HEAD,
)
