"""The exported model, which engines compile, and example inputs for compiling.

`handlers.worker.rows.calls` writes the inputs of served graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handlers.worker.archive.signature import (
    ATTENTION_MASK,
    INPUT_IDS,
    POOLING_MASK,
    POSITION_IDS,
    SEGMENTS,
    TOKEN_TYPE_IDS,
    VALID_LENGTH,
    Head,
    InputTensor,
    Prompt,
    Role,
    hides_filling,
)
from handlers.worker.rows.lines import number_positions
from handlers.worker.values import Json, Row, Shape

if TYPE_CHECKING:
    import torch


EXAMPLE = Shape(2, 16)


@dataclass(frozen=True)
class ExportedModel:
    """A model in evaluation mode, ready to compile.

    module takes the `inputs` positionally, each int64 of shape (batch_size, sequence_length), and
    returns a tuple of the `outputs`, each float32 with batch_size first. For prompts, default_prompt,
    unit_length, padding_position, fields, tensors, token_outputs, dimensions, ranges, defaults and roles, see
    `handlers.worker.archive.signature.Signature`.
    preprocess is the file of the preprocessing module. packed takes the `packed_inputs` instead, for packed shapes;
    None if there are none. pack makes `packed` for a mask with that number of dimensions; None if the model's rows
    cannot be packed, for the reason in unpackable.
    """

    module: torch.nn.Module
    tokenizer: Any  # None if a preprocessing module takes its place
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: dict[str, Head]  # the outputs that have labels
    positions: int | None  # the longest sequence that the model can read
    prompts: dict[str, Prompt] = field(default_factory=dict)
    default_prompt: str | None = None
    unit_length: bool = False
    padding_position: int | None = None
    preprocess: Path | None = None
    fields: tuple[str, ...] = ()
    tensors: dict[str, InputTensor] = field(default_factory=dict)
    token_outputs: tuple[str, ...] = ()
    per_token: bool = False
    dimensions: tuple[int, ...] = ()
    ranges: tuple[tuple[float, ...], ...] = ()
    defaults: dict[str, Json] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    packed: torch.nn.Module | None = None
    pack: Callable[[int], torch.nn.Module] | None = None
    unpackable: str = "it is not known how a TorchScript module uses rows"
    example: Shape = EXAMPLE  # for engines that convert the model once for all shapes

    def module_for(self, shape: Shape) -> torch.nn.Module:
        """The module that a graph of this shape computes."""
        module = self.packed if shape.packed else self.module
        assert module is not None  # made before anything is compiled
        return module

    @property
    def packed_inputs(self) -> tuple[str, ...]:
        """The arguments of `packed`; empty if there is none."""
        return () if self.packed is None else packed_names(self.inputs)


def packed_names(inputs: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a model for packed rows, from those of the model; see `handlers.worker.rows.lines`."""
    token_inputs = [name for name in inputs if name in (INPUT_IDS, TOKEN_TYPE_IDS)]
    return (*token_inputs, SEGMENTS, POSITION_IDS, *([POOLING_MASK] if POOLING_MASK in inputs else []))


def row_inputs(row: Row, model: ExportedModel) -> dict[str, Any]:
    """The inputs of one row of a model without padding: a value per token, or one for the row."""
    if model.tensors:
        return dict(row.tensors)
    tokens, skipped = len(row.ids), min(row.prompt_tokens, len(row.ids))
    hidden = row.filled * hides_filling(model.roles)
    values = {
        INPUT_IDS: row.ids,
        ATTENTION_MASK: [1] * (tokens - hidden) + [0] * hidden,
        TOKEN_TYPE_IDS: row.type_ids,
        POOLING_MASK: [0] * skipped + [1] * (tokens - skipped),
    }
    if model.padding_position is not None:
        values[POSITION_IDS] = number_positions(np.array([row.ids]), model.padding_position)[0].tolist()
    return {name: values[name] for name in model.inputs}


def example_inputs(model: ExportedModel, shape: Shape) -> tuple[torch.Tensor, ...]:
    """Tensors to trace a model with: tokens in every row, and padding at its end."""
    import torch

    if shape.packed:
        return _packed_example(model, shape)
    ids = torch.full(shape.dims, 3, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[:, shape.sequence_length // 2 + 1 :] = 0
    tensors = {
        INPUT_IDS: ids,
        ATTENTION_MASK: mask,
        TOKEN_TYPE_IDS: torch.zeros_like(ids),
        POOLING_MASK: mask.clone(),
    }
    for name, tensor in model.tensors.items():
        values = tensors.get(name, torch.zeros_like(ids))
        if tensor.per_row:
            values = mask.sum(1) if name == VALID_LENGTH else values[:, 0]
        tensors[name] = values.to(getattr(torch, tensor.dtype))
    if model.padding_position is not None:
        tensors[POSITION_IDS] = torch.from_numpy(number_positions(ids.numpy(), model.padding_position))
    return tuple(tensors[name] for name in model.inputs)


def _packed_example(model: ExportedModel, shape: Shape) -> tuple[torch.Tensor, ...]:
    """Tensors to trace a packed model with: two texts in every line, and padding at its end."""
    import torch

    third = shape.sequence_length // 3
    first = 0 if model.padding_position is None else model.padding_position + 1
    positions = torch.arange(shape.sequence_length) % third + first
    segments = torch.full(shape.dims, -1, dtype=torch.int64)
    segments[:, :third], segments[:, third : 2 * third] = 0, 1
    tensors = {
        INPUT_IDS: torch.full(shape.dims, 3, dtype=torch.int64),
        TOKEN_TYPE_IDS: torch.zeros(shape.dims, dtype=torch.int64),
        SEGMENTS: segments,
        POSITION_IDS: positions.repeat(shape.batch_size, 1),
        POOLING_MASK: (segments >= 0).to(torch.int64),
    }
    return tuple(tensors[name] for name in model.packed_inputs)
