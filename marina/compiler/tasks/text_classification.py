"""Text classification: one transformers head, or several custom heads on the pooled tokens of an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from handlers.worker.archive.signature import Head, Signature, label_text
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tasks.activation import activate
from handlers.worker.tasks.text_classification import ranking
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Instance, Outputs
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.cross_encoder import cross_encoder_activation
from marina.compiler.hugging_face.embedder import pooling_of
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import ENCODER, load_model
from marina.compiler.reference import ExactOutputs, Reference, TransformersReference, pool_tokens
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import export_classifier, inputs_of, padding_position_of, positions_of
from marina.compiler.tasks.outputs import OutputRule
from marina.compiler.tasks.packed import PackedHeadsModel
from marina.compiler.tasks.wrappers import HeadsModel, StaticPooling
from marina.engines.model import ExportedModel, packed_names
from marina.errors import SourceError

HEAD = "ForSequenceClassification"
HEADS_FILE = "heads.safetensors"
REGRESSION_TOLERANCE = 0.05  # of the reference's standard deviation; a smaller difference counts as none
Array = npt.NDArray[Any]


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    """Export the head that the model was trained with, or the heads in the spec."""
    if not source.spec.heads:
        return export_classifier(source, HEAD, attention, cross_encoder_activation(source))
    model, tokenizer = load_model(source, ENCODER, attention)
    inputs = inputs_of(model, tokenizer)
    pooling = StaticPooling([pooling_of(source)])
    module = HeadsModel(model, pooling, read_heads(source, model.config.hidden_size), inputs)
    heads = {name: Head(head.labels, head.activation) for name, head in source.spec.heads.items()}
    positions = positions_of(model.config, tokenizer)
    padding = padding_position_of(model)
    return ExportedModel(
        module.float().eval(),
        tokenizer,
        inputs,
        tuple(heads),
        heads,
        positions,
        padding_position=padding,
        pack=lambda dims: PackedHeadsModel(model, pooling.modes, module.heads, packed_names(inputs), dims),
    )


def read_heads(source: HuggingFaceFolder, width: int) -> nn.ModuleDict:
    """The heads in the spec, with the weights from `heads.safetensors`; SourceError if they do not fit."""
    from safetensors.torch import load_file

    specs = source.spec.heads or {}
    heads = nn.ModuleDict({name: nn.Linear(width, len(head.labels)) for name, head in specs.items()})
    try:
        heads.load_state_dict(load_file(str(source.folder / HEADS_FILE)))
    except Exception as error:  # missing, damaged, or with other names and sizes
        reason = " ".join(str(error).split())[:300]
        raise SourceError(f"{source.title}/{HEADS_FILE} does not fit the spec's heads: {reason}") from None
    return heads


def open_reference(source: HuggingFaceFolder) -> Reference:
    """The model, run by its own library."""
    return _HeadsReference(source) if source.spec.heads else TransformersReference(source, HEAD)


class _HeadsReference(TransformersReference):
    """An encoder with heads on one pooled vector."""

    def __init__(self, source: HuggingFaceFolder) -> None:
        super().__init__(source, "")
        self._pooling = pooling_of(source)
        self._heads = read_heads(source, self._model.config.hidden_size)

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        vectors = self.run(instance).last_hidden_state[0]
        pooled = torch.from_numpy(pool_tokens(vectors.numpy(), self._pooling))
        return [(head.weight.to(pooled) @ pooled + head.bias.to(pooled)).numpy() for head in self._heads.values()]


def agree(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Outputs],
    signature: Signature,
    _: RowTokenizer,
    parameters: Mapping[str, Any],
) -> Agreement:
    """The fraction of texts for which every head gives the same label, labels or value, as the worker decides."""
    thresholds = parameters.get("thresholds", {})
    function = parameters.get("function_to_apply", "default")
    all_same = np.ones(len(rows), dtype=bool)
    for index, name in enumerate(signature.outputs):
        expected = np.array([row.outputs[index] for row in rows])
        actual = np.array([output[index] for output in outputs])
        head = signature.heads[name]
        activation = head.activation if function == "default" else function
        has_thresholds = any(label_text(label) in thresholds for label in head.labels)
        if has_thresholds:
            first_labels = partial(_first_labels, head=head, activation=activation, thresholds=thresholds)
            all_same &= first_labels(expected) == first_labels(actual)
        if not has_thresholds or activation != "softmax":
            all_same &= same_results(expected, actual, head.activation)
    return Agreement("same label", float(all_same.mean()), len(rows))


def _first_labels(logits: Array, head: Head, activation: str, thresholds: Mapping[str, float]) -> Array:
    """The number of the first label of each row."""
    return np.array([ranking(activate(row, activation), head, thresholds)[0] for row in logits])


def same_results(expected: Array, actual: Array, activation: str) -> Array:
    """For each row of logits (rows, labels), whether expected and actual logits give the same result."""
    if activation == "softmax":
        return np.asarray(expected.argmax(1) == actual.argmax(1))
    if activation == "sigmoid":
        return np.asarray(((expected > 0) == (actual > 0)).all(1))
    return np.asarray((np.abs(expected - actual) <= REGRESSION_TOLERANCE * expected.std(0)).all(1))


EXPORTER = TaskExporter(export, open_reference, agree, OutputRule(labels=True), names_head(HEAD), HEAD)
