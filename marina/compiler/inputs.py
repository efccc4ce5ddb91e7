"""Inputs of models while they are compiled, by their names; served ones are written by `handlers.worker.rows.calls`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from handlers.worker.artifact import POOLING_MASK
from handlers.worker.values import Row, Shape


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


def example_inputs(model: Any, shape: Shape) -> tuple[torch.Tensor, ...]:
    """Tensors to trace an `ExportedModel` with: tokens everywhere, and padding at the end of every row."""
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
