"""Question answering: a transformers head for the first and the last token; agreement is measured on answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tasks.question_answering import TASK
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Instance, Outputs
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import load_model
from marina.compiler.reference import ExactOutputs, TransformersReference
from marina.compiler.tasks.agreement import spans_of
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import with_head
from marina.compiler.tasks.outputs import OutputRule
from marina.engines.model import ExportedModel
from marina.errors import SourceError

SPANS = ("start_logits", "end_logits")
HEAD = "ForQuestionAnswering"


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    """Export the head that the model was trained with; SourceError if its questions come after contexts."""
    model, tokenizer = load_model(source, f"AutoModel{HEAD}", attention)
    if tokenizer.padding_side == "left":
        raise SourceError(
            f"{source.title}: its tokenizer pads on the left, where the question comes after the context; Marina reads "
            "it before"
        )
    return with_head(model, tokenizer, SPANS, {}, per_token=True)


class _Reference(TransformersReference):
    """A reference model with two outputs."""

    def answer(self, instance: Instance, _: str | None) -> ExactOutputs:
        result = self.run(instance)
        return [output[0].numpy() for output in (result.start_logits, result.end_logits)]


def agree(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Outputs],
    signature: Signature,
    tokenizer: RowTokenizer,
    parameters: Mapping[str, Any],
) -> Agreement:
    """The fraction of questions with the same answers."""
    expected = spans_of(rows, [row.outputs for row in rows], signature, TASK, tokenizer, parameters)
    actual = spans_of(rows, outputs, signature, TASK, tokenizer, parameters)
    same_answers = np.mean(
        [expected_spans == actual_spans for expected_spans, actual_spans in zip(expected, actual, strict=True)]
    )
    return Agreement("same answer", float(same_answers), len(rows))


EXPORTER = TaskExporter(
    export, partial(_Reference, head=HEAD), agree, OutputRule(SPANS, per_token=True), names_head(HEAD), HEAD
)
