"""Wraps models with the positional signature and the outputs that a task needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from handlers.worker.archive.signature import POOLING_MASK


class EmbeddingModel(nn.Module):
    """The modules of a `SentenceTransformer`, run in sequence.

    Args:
        steps: the modules, with `StaticPooling` in place of Pooling.
        width: the number of dimensions of an embedding to keep; None for all.
        inputs: names of the arguments.
        feature: the library's name of the vectors to return.
    """

    def __init__(
        self,
        steps: Iterable[nn.Module],
        width: int | None,
        inputs: tuple[str, ...],
        feature: str = "sentence_embedding",
    ) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.width = width
        self.inputs = inputs
        self.feature = feature

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        features = dict(zip(self.inputs, args, strict=True))
        pooling_mask = features.pop(POOLING_MASK, None)
        for number, step in enumerate(self.steps):
            features = step(features)
            if number == 0 and pooling_mask is not None:
                features["attention_mask"] = pooling_mask
        embedding = features[self.feature]
        return (embedding if self.width is None else embedding[:, : self.width],)


class StaticPooling(nn.Module):
    """Computes the same as `Pooling` of sentence-transformers, for rows with contiguous tokens before the padding.

    The library finds the first and the last token as the index of a largest number. If several
    numbers are equal, engines choose different indices.

    Args:
        modes: the library's names of the modes; their vectors are concatenated.
    """

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = tuple(modes)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors, mask = features["token_embeddings"], features["attention_mask"]
        pooled = [pool(vectors, mask.unsqueeze(-1).to(vectors.dtype), mode) for mode in self.modes]
        return {**features, "sentence_embedding": torch.cat(pooled, dim=-1) if len(pooled) > 1 else pooled[0]}


def pool(vectors: Tensor, mask: Tensor, mode: str) -> Tensor:
    """Pool token vectors into one vector per row.

    Source: `sentence_transformers.sentence_transformer.modules.Pooling`.

    Args:
        vectors: float, of shape (batch_size, sequence_length, width).
        mask: of shape (batch_size, sequence_length, 1) and the same type, 1 for the contiguous tokens that count.
        mode: "mean", "mean_sqrt_len_tokens", "weightedmean", "max", "cls" or "lasttoken".

    Returns:
        Of shape (batch_size, width).
    """
    if mode == "max":
        return vectors.masked_fill(mask == 0, torch.finfo(vectors.dtype).min).max(1).values
    none = torch.zeros_like(mask[:, :1])
    if mode == "cls":  # this token counts, and the one before it does not
        return (vectors * (mask * (1 - torch.cat([none, mask[:, :-1]], dim=1)))).sum(1)
    if mode == "lasttoken":
        return (vectors * (mask * (1 - torch.cat([mask[:, 1:], none], dim=1)))).sum(1)
    if mode == "weightedmean":
        mask = mask * torch.arange(1, mask.shape[1] + 1, dtype=mask.dtype).view(1, -1, 1)
    total = mask.sum(1).clamp(min=1e-9)
    return (vectors * mask).sum(1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


class HeadsModel(nn.Module):
    """Several linear heads on the pooled token vectors of one encoder."""

    def __init__(
        self, encoder: nn.Module, pooling: StaticPooling, heads: nn.ModuleDict, inputs: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.heads = heads
        self.inputs = inputs

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        inputs = dict(zip(self.inputs, args, strict=True))
        vectors = self.encoder(**inputs, return_dict=False)[0]
        features = self.pooling({"token_embeddings": vectors, "attention_mask": inputs["attention_mask"]})
        return tuple(head(features["sentence_embedding"]) for head in self.heads.values())


class TaskModel(nn.Module):
    """The first outputs of a transformers model that has a head for its task."""

    def __init__(self, model: nn.Module, outputs: int, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.outputs = outputs
        self.inputs = inputs

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.model(**dict(zip(self.inputs, args, strict=True)), return_dict=False)[: self.outputs])
