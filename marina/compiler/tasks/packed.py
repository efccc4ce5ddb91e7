"""Models that read packed rows: several texts in a line, each of which attends to itself alone.

Attention is block-diagonal, positions start anew in each text, and each text is pooled and classified by itself. Places
are found by products with one-hot matrices and never by gathers, which the compilers of NeuronCores dislike.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from handlers.worker.artifact import POOLING_MASK, POSITION_IDS, SEGMENTS
from handlers.worker.values import TOKENS_A_TEXT

MASKED = -10000.0  # exp() of it is 0 in float32, and it is finite in all 16-bit types
TABLE = "position_embeddings"  # transformers' name of a table of positions


class PackedEncoder(nn.Module):
    """An encoder of transformers that reads packed rows.

    Args:
        encoder: without a head.
        dims: of the mask that it takes: 4 for (rows, 1, tokens, tokens) of numbers that are added, 3 for (rows, tokens,
            tokens) of 0 and 1.
    """

    def __init__(self, encoder: nn.Module, dims: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.dims = dims
        self._takes_positions = POSITION_IDS in inspect.signature(encoder.forward).parameters
        self._positions: Tensor | None = None
        if not self._takes_positions:
            for name, module in encoder.named_modules():
                if name.rpartition(".")[2] == TABLE and isinstance(module, nn.Embedding):
                    module.register_forward_pre_hook(self._use_positions)

    def forward(self, named: dict[str, Tensor]) -> Any:
        """The encoder's outputs for inputs by name, among them `SEGMENTS` and `POSITION_IDS`."""
        segments, positions = named[SEGMENTS], named[POSITION_IDS]
        own = {name: value for name, value in named.items() if name in ("input_ids", "token_type_ids")}
        if self._takes_positions:
            own[POSITION_IDS] = positions
        self._positions = positions
        try:
            return self.encoder(**own, attention_mask=self._mask(segments), return_dict=True)
        finally:
            self._positions = None

    def _mask(self, segments: Tensor) -> Any:
        same = segments.unsqueeze(2) == segments.unsqueeze(1)
        if self.dims == 3:
            return same.to(torch.int64)
        full = torch.where(same, 0.0, MASKED).unsqueeze(1)
        window = _window(self.encoder.config)
        if window is None:
            return full
        index = torch.arange(segments.shape[1])
        near = (index.unsqueeze(0) - index.unsqueeze(1)).abs() <= window
        local = torch.where(same & near.unsqueeze(0), 0.0, MASKED).unsqueeze(1)
        return {"full_attention": full, "sliding_attention": local}

    def _use_positions(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments if self._positions is None else (self._positions,)


def _window(config: Any) -> int | None:
    """How far tokens attend in layers with local attention; None if the model has none."""
    size = getattr(config, "local_attention", None)
    return None if size is None else int(size) // 2


class _Unpacked(nn.Module):
    """Stands in a model with a head for its encoder: gives the first token of each text as if it were all of its text."""

    def __init__(self, encoder: PackedEncoder, per_token: bool) -> None:
        super().__init__()
        self.packed = encoder
        self.per_token = per_token
        self.named: dict[str, Tensor] = {}

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        found = self.packed(self.named)
        if self.per_token:
            return found
        vectors = found.last_hidden_state
        first = one_hot(self.named[SEGMENTS], starts(self.named[SEGMENTS])).to(vectors.dtype)
        own = (first @ vectors.reshape(-1, vectors.shape[-1])).unsqueeze(1)
        pooler = getattr(self.packed.encoder, "pooler", None)
        return BaseModelOutputWithPooling(last_hidden_state=own, pooler_output=None if pooler is None else pooler(own))


class PackedTaskModel(nn.Module):
    """The first outputs of a transformers model with a head, for packed rows.

    Args:
        model: shares its weights.
        outputs: how many.
        inputs: names of the arguments.
        per_token: whether the outputs are for tokens; else for the first token of each text.
        dims: see `PackedEncoder`.
    """

    def __init__(self, model: nn.Module, outputs: int, inputs: Sequence[str], per_token: bool, dims: int) -> None:
        super().__init__()
        prefix = str(model.base_model_prefix)
        self.stand_in = _Unpacked(PackedEncoder(getattr(model, prefix), dims), per_token)
        self.model = copy.copy(model)  # the same weights, with another encoder
        self.model._modules = {**model._modules, prefix: self.stand_in}
        self.outputs = outputs
        self.inputs = tuple(inputs)

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        self.stand_in.named = dict(zip(self.inputs, args))
        return tuple(self.model(input_ids=args[0], return_dict=False)[: self.outputs])


class PackedEmbeddingModel(nn.Module):
    """The modules of a `SentenceTransformer` for packed rows.

    Args:
        steps: the modules, the first of which is the encoder's, with `StaticPooling` in place of Pooling.
        width: see `EmbeddingModel`.
        inputs: names of the arguments.
        dims: see `PackedEncoder`.
    """

    def __init__(self, steps: Sequence[nn.Module], width: int | None, inputs: Sequence[str], dims: int) -> None:
        super().__init__()
        self.encoder = PackedEncoder(steps[0].auto_model, dims)
        self.steps = nn.ModuleList(_packed_step(step) for step in steps[1:])
        self.width = width
        self.inputs = tuple(inputs)

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        named = dict(zip(self.inputs, args))
        features: dict[str, Any] = {"token_embeddings": self.encoder(named).last_hidden_state, **named}
        for step in self.steps:
            features = step(features)
        embedding = features["sentence_embedding"]
        return (embedding if self.width is None else embedding[:, : self.width],)


class PackedHeadsModel(nn.Module):
    """Several linear heads on the pooled token vectors of one encoder, for packed rows."""

    def __init__(
        self, encoder: nn.Module, modes: Sequence[str], heads: nn.ModuleDict, inputs: Sequence[str], dims: int
    ) -> None:
        super().__init__()
        self.encoder = PackedEncoder(encoder, dims)
        self.pooling = PackedPooling(modes)
        self.heads = heads
        self.inputs = tuple(inputs)

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self.inputs, args))
        features = self.pooling({"token_embeddings": self.encoder(named).last_hidden_state, **named})
        return tuple(head(features["sentence_embedding"]) for head in self.heads.values())


class PackedPooling(nn.Module):
    """Pools each text of packed rows by itself; the vectors of several modes are concatenated.

    Args:
        modes: as `StaticPooling` has them.

    Raises:
        ValueError: a mode needs more than sums over tokens.
    """

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        if "max" in modes:
            raise ValueError("pooling by the maximum needs every text in a row of its own")
        self.modes = tuple(modes)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        vectors, segments = features["token_embeddings"], features[SEGMENTS]
        counted = features.get(POOLING_MASK, (segments >= 0).to(segments.dtype))
        pooled = [self._pool(vectors, segments, counted, features[POSITION_IDS], mode) for mode in self.modes]
        return {**features, "sentence_embedding": torch.cat(pooled, dim=-1) if len(pooled) > 1 else pooled[0]}

    def _pool(self, vectors: Tensor, segments: Tensor, counted: Tensor, positions: Tensor, mode: str) -> Tensor:
        flat = vectors.reshape(-1, vectors.shape[-1])
        if mode in ("cls", "lasttoken"):
            chosen = starts(segments, counted) if mode == "cls" else ends(segments, counted)
            return one_hot(segments, chosen).to(flat.dtype) @ flat
        weights = counted
        if mode == "weightedmean":  # by the place in the row, from 1 on
            weights = counted * (positions - positions.min() + 1)
        chosen = one_hot(segments, weights).to(flat.dtype)
        total = chosen.sum(1, keepdim=True).clamp(min=1e-9)
        return (chosen @ flat) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


def _packed_step(step: nn.Module) -> nn.Module:
    modes = getattr(step, "modes", None)
    return step if modes is None else PackedPooling(modes)


def one_hot(segments: Tensor, weights: Tensor) -> Tensor:
    """For each text a row with the weights of its tokens, and 0 elsewhere.

    Args:
        segments: the number of the text of each token, or -1, shape (rows, tokens).
        weights: of tokens, the same shape.

    Returns:
        Shape (texts, rows * tokens), of the type of the weights.
    """
    texts = segments.shape[0] * (segments.shape[1] // TOKENS_A_TEXT)
    own = segments.reshape(1, -1) == torch.arange(texts).unsqueeze(1)
    return own.to(weights.dtype) * weights.reshape(1, -1)


def starts(segments: Tensor, counted: Tensor | None = None) -> Tensor:
    """1 for the first token of each text that counts, else 0; all tokens count by default."""
    return _edges(segments, counted, before=True)


def ends(segments: Tensor, counted: Tensor | None = None) -> Tensor:
    """1 for the last token of each text that counts, else 0."""
    return _edges(segments, counted, before=False)


def _edges(segments: Tensor, counted: Tensor | None, before: bool) -> Tensor:
    mask = (segments >= 0).to(segments.dtype) if counted is None else counted
    none = torch.full_like(segments[:, :1], -2)
    if before:
        same = segments == torch.cat([none, segments[:, :-1]], dim=1)
        neighbour = torch.cat([torch.zeros_like(mask[:, :1]), mask[:, :-1]], dim=1)
    else:
        same = segments == torch.cat([segments[:, 1:], none], dim=1)
        neighbour = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return mask * (1 - same.to(mask.dtype) * neighbour)
