"""The exported model, which engines compile, and inputs for it while that goes on.

Inputs of served graphs are written by `handlers.worker.rows.calls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handlers.worker.artifact import POOLING_MASK, Head, Prompt
from handlers.worker.values import Row, Shape

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ExportedModel:
    """A model in evaluation mode, ready to compile.

    module takes the `inputs` positionally, each int64 of (batch_size, sequence_length), and
    returns a tuple of the `outputs`, each float32 with batch_size first. For prompts, default_prompt and
    unit_length see `handlers.worker.artifact.Signature`.
    """

    module: torch.nn.Module
    tokenizer: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    heads: dict[str, Head]  # the outputs that have labels
    positions: int | None  # the longest sequence that the model can read
    prompts: dict[str, Prompt] = field(default_factory=dict)
    default_prompt: str | None = None
    unit_length: bool = False


def row_inputs(row: Row, names: Sequence[str]) -> dict[str, list[int]]:
    """The inputs of one row without padding, each of its tokens."""
    tokens, skipped = len(row.ids), min(row.prompt_tokens, len(row.ids))
    named = {
        "input_ids": row.ids,
        "attention_mask": [1] * tokens,
        "token_type_ids": row.type_ids,
        POOLING_MASK: [0] * skipped + [1] * (tokens - skipped),
    }
    return {name: named[name] for name in names}


def example_inputs(model: ExportedModel, shape: Shape) -> tuple[torch.Tensor, ...]:
    """Tensors to trace a model with: tokens everywhere, and padding at the end of every row."""
    import torch

    ids = torch.full(tuple(shape), 3, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[:, shape.sequence_length // 2 + 1 :] = 0
    tensors = {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        POOLING_MASK: mask.clone(),
    }
    return tuple(tensors[name] for name in model.inputs)
