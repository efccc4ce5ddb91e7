"""The reference of a TorchScript module: the module itself, run on each instance alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from handlers.worker.archive.signature import ATTENTION_MASK, INPUT_IDS, POSITION_IDS, TOKEN_TYPE_IDS, VALID_LENGTH
from handlers.worker.tokens.preprocess import Arrays, Preprocessor, rows_of
from handlers.worker.values import Instance, Row, Shape
from marina.compiler.hugging_face.embedder import POOLING
from marina.compiler.reference import ExactOutputs, ReferenceRow, pool_tokens, read_tokens
from marina.compiler.sources.torchscript.export import inputs_of, ordered_outputs
from marina.compiler.sources.torchscript.files import TorchScriptFiles, load_module, load_tokenizer
from marina.compiler.tasks.outputs import OutputRule, outputs_of


class TorchScriptReference:
    """The module of a spec.

    Args:
        files: the spec and its files.
        rule: the rule for its outputs.

    Raises:
        SourceError: a file cannot be loaded.
    """

    prompts: tuple[str | None, ...] = (None,)

    def __init__(self, files: TorchScriptFiles, rule: OutputRule) -> None:
        spec = files.spec
        self._spec, self._rule = spec, rule
        self._module = load_module(spec, files.module)
        self._input_dtypes = inputs_of(spec, self._module)
        self._preprocessor = Preprocessor(files.preprocess, tuple(self._input_dtypes)) if files.preprocess else None
        self._tokenizer = load_tokenizer(spec, files.tokenizer) if files.tokenizer else None
        self._shape = spec.shapes.listed()[-1]._replace(packed=False)
        self._per_token: list[bool] | None = None

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
        """The module's inputs from tokens, padded to a shape; only the first row counts."""
        tokens, padding = len(row.ids), shape.sequence_length - len(row.ids)
        pad = self._tokenizer.pad_token_id or 0 if self._tokenizer else 0
        values: dict[str, Any] = {
            INPUT_IDS: [*row.ids, *[pad] * padding],
            ATTENTION_MASK: [1] * tokens + [0] * padding,
            TOKEN_TYPE_IDS: [*row.type_ids, *[0] * padding],
            POSITION_IDS: list(range(shape.sequence_length)),
            VALID_LENGTH: tokens,
        }
        return {name: np.array([values[name]] * shape.batch_size) for name in self._input_dtypes}

    def _run(self, arrays: Mapping[str, npt.NDArray[Any]], tokens: int) -> ExactOutputs:
        inputs = [
            torch.from_numpy(arrays[name]).to(getattr(torch, dtype)) for name, dtype in self._input_dtypes.items()
        ]
        output_specs = outputs_of(self._spec, self._rule)
        results = ordered_outputs(self._module(*inputs), output_specs)
        outputs: ExactOutputs = []
        for result, output_spec, is_per_token in zip(
            results, output_specs.values(), self._find_per_token(inputs, results), strict=True
        ):
            values = result[0].double().numpy()
            if is_per_token:
                values = values[:tokens]
            if output_spec.pooling:
                values = pool_tokens(values, POOLING[output_spec.pooling])
            outputs.append(values / np.linalg.norm(values) if self._spec.normalize else values)
        return outputs

    def _find_per_token(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[bool]:
        """For each output, whether it has a value per token: then inputs with a token less give a value less."""
        output_specs = outputs_of(self._spec, self._rule)
        if self._per_token is None:
            try:
                shorter_inputs = [tensor[:, :-1] if tensor.ndim == 2 else tensor for tensor in inputs]
                shorter_results = ordered_outputs(self._module(*shorter_inputs), output_specs)
                self._per_token = [
                    result.ndim > 1 and result.shape[1] != shorter_result.shape[1]
                    for result, shorter_result in zip(results, shorter_results, strict=True)
                ]
            except (RuntimeError, IndexError):  # it was traced for one shape, where outputs of tokens say so themselves
                self._per_token = [
                    bool(output_spec.pooling) or self._rule.per_token for output_spec in output_specs.values()
                ]
        return self._per_token
