"""Sparse embeddings: a `SparseEncoder` of the kind SPLADE; agreement is the cosine with the result of `encode`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from marina.compiler.hugging_face import read_modules
from marina.compiler.hugging_face.architecture import tasks_of_architectures
from marina.compiler.hugging_face.embedder import check_encoder, check_model, check_modules, read_model
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import read_configuration
from marina.compiler.tasks.base import TaskExporter
from marina.compiler.tasks.export import export_embedder, inputs_for_pooling
from marina.compiler.tasks.outputs import OutputRule
from marina.compiler.tasks.sentence_embedding import EmbeddingReference, agree
from marina.engines.model import ExportedModel
from marina.errors import SourceError

HEAD = "ForMaskedLM"
POOLING = "SpladePooling"
MODULES = ("Transformer", POOLING)


def recognises(folder: Path, _: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers wrote the folder of a model that pools like SPLADE."""
    return any(module["type"].endswith(f".{POOLING}") for module in read_modules(folder))


def check(source: HuggingFaceFolder) -> None:
    """Refuse modules that cannot be compiled, and folders of other models without modules."""
    check_modules(source, MODULES)
    architectures = read_configuration(source.encoder()).architectures or []
    if not tasks_of_architectures(architectures, {source.spec.task: HEAD}):
        raise SourceError(
            f"{source.title} is no masked language model: the architectures of its config.json are "
            f"{', '.join(architectures) or 'missing'}, and the task {source.spec.task} needs a ...{HEAD}"
        )


def load_sparse_encoder(source: HuggingFaceFolder, attention: str | None = None) -> Any:
    """The `SparseEncoder` in a folder; SourceError if it cannot be compiled.

    A masked language model without sentence-transformers files is read as the library would: with the maximum over its
    tokens.
    """
    check(source)
    model = read_model(source, "SparseEncoder", attention)
    check_model(source, model, POOLING)
    return model


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    model = load_sparse_encoder(source, attention)
    encoder, tokenizer = model[0].auto_model, model.tokenizer
    check_encoder(source, encoder, encoder_only=False)
    inputs = inputs_for_pooling(encoder, tokenizer)
    return export_embedder(
        model,
        (model[0], StaticSplade(model[1])),
        inputs,
        "embedding",
        default_prompt=model.default_prompt_name,
        defaults={} if model.max_active_dims is None else {"max_active_dims": model.max_active_dims},
        pack=None,
        unpackable="pooling over the vocabulary needs every text in a row of its own",
    )


class StaticSplade(nn.Module):
    """Computes the same as `SpladePooling` of sentence-transformers.

    The maximum comes first, as the functions after it keep the order: they are computed once for each text and not for
    each of its tokens.

    Args:
        pooling: the library's module.
    """

    def __init__(self, pooling: Any) -> None:
        super().__init__()
        self.takes_maximum = pooling.pooling_strategy == "max"
        self.logarithms = 2 if pooling.activation_function == "log1p_relu" else 1

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        logits = features["token_embeddings"]  # (batch_size, sequence_length, vocabulary)
        logits = logits * features["attention_mask"].unsqueeze(-1).to(logits.dtype)
        weights = torch.relu(logits.max(1).values if self.takes_maximum else logits)
        for _ in range(self.logarithms):
            weights = torch.log(1 + weights)  # log1p is not among the operators that AWS lists for Inf1
        return {**features, "sentence_embedding": weights if self.takes_maximum else weights.sum(1)}


class _SparseReference(EmbeddingReference):
    """A `SparseEncoder`, called through `encode`, with all weights that are not 0."""

    options: Mapping[str, Any] = {"convert_to_sparse_tensor": False}

    def __init__(self, source: HuggingFaceFolder) -> None:
        model = load_sparse_encoder(source)
        model.max_active_dims = None
        super().__init__(source.spec.name, model)


EXPORTER = TaskExporter(export, _SparseReference, agree, OutputRule(("embedding",)), recognises, check_folder=check)
