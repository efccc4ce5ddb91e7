"""Sentence embeddings: the modules of a `SentenceTransformer`; agreement is the cosine with the result of `encode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from handlers.worker.archive.signature import POOLING_MASK, Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.tokens.tokenizer import RowTokenizer
from handlers.worker.values import Instance, Outputs, Row
from marina.compiler.hugging_face import MODULES_FILE
from marina.compiler.hugging_face.architecture import architectures_of
from marina.compiler.hugging_face.embedder import (
    check_encoder,
    check_modules,
    dimensions_of,
    is_unit_length,
    load_embedder,
    read_prompts,
)
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.reference import ExactOutputs, Float64Runner, Reference, ReferenceRow
from marina.compiler.tasks.agreement import cosines_of
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.export import export_embedder, inputs_for_pooling
from marina.compiler.tasks.outputs import OutputRule
from marina.compiler.tasks.wrappers import StaticPooling
from marina.engines.model import ExportedModel
from marina.errors import SourceError


def recognises(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether the folder is of sentence-transformers, or of a bare encoder."""
    return (folder / MODULES_FILE).is_file() or any(name.endswith("Model") for name in architectures_of(config))


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    model = load_embedder(source, attention)
    encoder, tokenizer = model[0].auto_model, model.tokenizer
    check_encoder(source, encoder)
    inputs = inputs_for_pooling(encoder, tokenizer)
    if any(prompt.tokens for prompt in read_prompts(model).values()):
        inputs = (*inputs, POOLING_MASK)
    return export_embedder(
        model,
        list(map(_with_static_pooling, model)),
        inputs,
        "embedding",
        width=model.truncate_dim,
        default_prompt=model.default_prompt_name,
        unit_length=is_unit_length(model),
        dimensions=dimensions_of(model, source.spec),
    )


def _with_static_pooling(module: nn.Module) -> nn.Module:
    """A module of sentence-transformers in a form that graphs of every engine compute identically."""
    if type(module).__name__ != "Pooling":
        return module
    return StaticPooling([module.pooling_mode] if isinstance(module.pooling_mode, str) else module.pooling_mode)


def open_reference(source: HuggingFaceFolder) -> Reference:
    """The model, run by its own library."""
    return EmbeddingReference(source.spec.name, load_embedder(source))


class EmbeddingReference:
    """A model of sentence-transformers, called through `encode`.

    Args:
        name: the spec's.
        model: a `SentenceTransformer` or `SparseEncoder`.

    Attributes:
        options: more arguments of `encode`, for every text.
    """

    options: Mapping[str, Any] = {}

    def __init__(self, name: str, model: Any) -> None:
        self._name = name
        self._prompts = read_prompts(model)
        self._model, self._run_in_float64 = model, Float64Runner(model)
        # requests may also ask for no prompt; prompts with equal text are read identically
        names = dict.fromkeys((model.default_prompt_name, None, *self._prompts))
        texts = {(self._prompts[name].text if name is not None else ""): name for name in reversed(names)}
        self.prompts: tuple[str | None, ...] = tuple(name for name in names if name in texts.values())

    def read(self, instance: Instance, prompt: str | None) -> ReferenceRow:
        prefix = self._prompts[prompt] if prompt is not None else None
        text = (prefix.text if prefix else "") + instance.text
        encoding = self._model.tokenizer(text, truncation=False, verbose=False)
        row = Row(list(encoding["input_ids"]), list(encoding.encodings[0].type_ids), prefix.tokens if prefix else 0)
        limit = self._model.max_seq_length
        if limit is None or len(row.ids) <= limit:
            features = self._model.preprocess([instance.text], prompt=prefix.text if prefix else None)
            if features["input_ids"][0].tolist() != row.ids:
                raise SourceError(f"{self._name}: sentence-transformers reads other tokens than its tokenizer makes")
        return ReferenceRow(Instance(text), row)

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        text = self._prompts[prompt].text if prompt is not None else ""
        # an empty prompt means no prompt; omitting the argument would select the default one
        options = {"prompt": text, "batch_size": 1, "show_progress_bar": False, **self.options}
        (embedding,) = self._run_in_float64(lambda: self._model.encode([instance.text], **options))
        return [np.asarray(embedding, dtype=np.float64)]


def agree(
    rows: Sequence[GoldenRow], outputs: Sequence[Outputs], _: Signature, __: RowTokenizer, ___: Mapping[str, Any]
) -> Agreement:
    """The mean cosine between embeddings and the reference's."""
    expected = np.array([row.outputs[0] for row in rows])
    actual = np.array([output[0] for output in outputs], dtype=np.float64)
    return Agreement("mean cosine", float(cosines_of(expected, actual).mean()), len(rows), "cosine")


EXPORTER = TaskExporter(
    export, open_reference, agree, OutputRule(("embedding",)), recognises, check_folder=check_modules
)
