"""The reference of a TorchScript module: the module itself, run on each instance alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from handlers.worker.artifact import ATTENTION_MASK, POSITION_IDS, VALID_LENGTH
from handlers.worker.rows.preprocess import Arrays, Preprocessor, rows_of
from handlers.worker.values import Instance, Row, Shape
from marina.compiler.hugging_face.embedder import POOLING
from marina.compiler.reference import ExactOutputs, ReferenceRow, pool_tokens, read_tokens
from marina.compiler.sources.torchscript.export import IDS, TYPE_IDS, inputs_of, listed
from marina.compiler.sources.torchscript.files import TorchScriptFiles, load_module, load_tokenizer
from marina.compiler.tasks.outputs import OutputRule, outputs_of


class TorchScriptReference:
    """The module of a spec.

    Args:
        files: the spec and its files.
        rule: what its outputs must be.

    Raises:
        SourceError: a file cannot be loaded.
    """

    prompts: tuple[str | None, ...] = (None,)

    def __init__(self, files: TorchScriptFiles, rule: OutputRule) -> None:
        spec = files.spec
        self._spec, self._rule = spec, rule
        self._module = load_module(spec, files.module)
        self._wanted = inputs_of(spec, self._module)
        self._preprocessor = Preprocessor(files.preprocess, tuple(self._wanted)) if files.preprocess else None
        self._tokenizer = load_tokenizer(spec, files.tokenizer) if files.tokenizer else None
        self._shape = spec.shapes.listed()[-1]._replace(packed=False)
        self._following: list[bool] | None = None

    def read(self, instance: Instance, prompt: str | None) -> ReferenceRow:
        if self._preprocessor:
            return ReferenceRow(instance, rows_of(self._preprocessor.run([instance]))[0])
        return read_tokens(self._tokenizer, instance)

    def answer(self, instance: Instance, prompt: str | None) -> ExactOutputs:
        if self._preprocessor:
            arrays = self._preprocessor.run([instance])
            return self._run(arrays, len(rows_of(arrays)[0].ids))
        row = self.read(instance, prompt).row
        try:
            return self._run(self._arrays(row, Shape(1, len(row.ids))), len(row.ids))
        except RuntimeError:  # it was traced for one shape
            return self._run(self._arrays(row, self._shape), len(row.ids))

    def _arrays(self, row: Row, shape: Shape) -> Arrays:
        """The inputs that are made from tokens, padded to a shape, of which the first row counts."""
        tokens, padding = len(row.ids), shape.sequence_length - len(row.ids)
        pad = self._tokenizer.pad_token_id or 0 if self._tokenizer else 0
        named: dict[str, Any] = {
            IDS: [*row.ids, *[pad] * padding],
            ATTENTION_MASK: [1] * tokens + [0] * padding,
            TYPE_IDS: [*row.type_ids, *[0] * padding],
            POSITION_IDS: list(range(shape.sequence_length)),
            VALID_LENGTH: tokens,
        }
        return {name: np.array([named[name]] * shape.batch_size) for name in self._wanted}

    def _run(self, arrays: Mapping[str, npt.NDArray[Any]], tokens: int) -> ExactOutputs:
        inputs = [torch.from_numpy(arrays[name]).to(getattr(torch, dtype)) for name, dtype in self._wanted.items()]
        specs = outputs_of(self._spec, self._rule)
        results = listed(self._module(*inputs), specs)
        outputs: ExactOutputs = []
        for result, spec, follows in zip(results, specs.values(), self._follow(inputs, results), strict=True):
            values = result[0].double().numpy()
            if follows:
                values = values[:tokens]
            if spec.pooling:
                values = pool_tokens(values, POOLING[spec.pooling])
            outputs.append(values / np.linalg.norm(values) if self._spec.normalize else values)
        return outputs

    def _follow(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[bool]:
        """For each output, whether it has a value per token: one less if its inputs have a token less."""
        specs = outputs_of(self._spec, self._rule)
        if self._following is None:
            try:
                shorter = [tensor[:, :-1] if tensor.ndim == 2 else tensor for tensor in inputs]
                others = listed(self._module(*shorter), specs)
                self._following = [
                    one.ndim > 1 and one.shape[1] != other.shape[1] for one, other in zip(results, others, strict=True)
                ]
            except (RuntimeError, IndexError):  # it was traced for one shape, where outputs of tokens say so themselves
                self._following = [bool(spec.pooling) or self._rule.per_token for spec in specs.values()]
        return self._following
