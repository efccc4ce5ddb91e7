"""Wraps Hugging Face models with the positional signature and the outputs that a task needs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EmbeddingModel(nn.Module):
    """Token vectors pooled to one vector a row, with an optional scaling to unit length."""

    def __init__(self, encoder: nn.Module, pooling: str, normalize: bool, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.normalize = normalize
        self.inputs = inputs

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        named = dict(zip(self.inputs, args))
        vectors = self.encoder(**named, return_dict=False)[0]
        pooled = pool(vectors, named["attention_mask"], self.pooling)
        if self.normalize:
            pooled = nn.functional.normalize(pooled, dim=-1)
        return (pooled,)


class HeadsModel(nn.Module):
    """Several linear heads on the pooled token vectors of one encoder."""

    def __init__(self, encoder: nn.Module, pooling: str, heads: nn.ModuleDict, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.heads = heads
        self.inputs = inputs

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self.inputs, args))
        pooled = pool(self.encoder(**named, return_dict=False)[0], named["attention_mask"], self.pooling)
        return tuple(head(pooled) for head in self.heads.values())


class TaskModel(nn.Module):
    """The first outputs of a transformers model that has a head for its task."""

    def __init__(self, model: nn.Module, outputs: int, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.outputs = outputs
        self.inputs = inputs

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model(**dict(zip(self.inputs, args)), return_dict=False)[: self.outputs])


def pool(vectors: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Pool token vectors as sentence-transformers does (`sentence_transformers.models.Pooling`).

    Args:
        vectors: float of (batch_size, sequence_length, width).
        mask: 1 for a token and 0 for padding, of (batch_size, sequence_length).
        pooling: "mean", "cls", "max" or "last".

    Returns:
        (batch_size, width).
    """
    weights = mask.unsqueeze(-1).to(vectors.dtype)
    if pooling == "cls":
        return vectors[:, 0]
    if pooling == "mean":
        return (vectors * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    if pooling == "max":
        return vectors.masked_fill(weights == 0, torch.finfo(vectors.dtype).min).max(1).values
    ends = (weights.cumsum(1) == weights.sum(1, keepdim=True)).to(vectors.dtype) * weights
    return (vectors * ends).sum(1)
