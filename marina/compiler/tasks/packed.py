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
        self.encoder = _taking_masks(encoder)
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
        full = _added(same)
        window = _window(self.encoder.config)
        if window is None:
            return full
        index = torch.arange(segments.shape[1], device=segments.device)
        near = (index.unsqueeze(0) - index.unsqueeze(1)).abs() <= window
        local = _added(same & near.unsqueeze(0))
        return {"full_attention": full, "sliding_attention": local}

    def _use_positions(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments if self._positions is None else (self._positions,)


class _Unmasked(nn.Module):
    """Embeddings without the mask that DeBERTa multiplies them by: no text attends to padding."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, *args: Any, mask: Any = None, **named: Any) -> Any:
        return self.embeddings(*args, **named)


def _taking_masks(encoder: nn.Module) -> nn.Module:
    """The encoder, with the same weights, where its own code makes masks of padding only."""
    found = copy.copy(encoder)
    embeddings = getattr(encoder, "embeddings", None)
    if embeddings is not None and "mask" in inspect.signature(embeddings.forward).parameters:
        found._modules = {**encoder._modules, "embeddings": _Unmasked(embeddings)}
    if hasattr(encoder, "_update_attention_mask"):  # ModernBERT in transformers 4
        found._update_attention_mask = lambda masks, **_: (masks["full_attention"], masks["sliding_attention"])
    return found


def _added(allowed: Tensor) -> Tensor:
    """Numbers to add to attention: 0 where it is allowed, shape (rows, 1, tokens, tokens)."""
    return ((1 - allowed.to(torch.float32)) * MASKED).unsqueeze(1)


def _window(config: Any) -> int | None:
    """How far tokens attend in layers with local attention; None if the model has none."""
    size = getattr(config, "local_attention", None)
    return None if size is None else int(size) // 2


class _Unpacked(nn.Module):
    """Stands in a model with a head for its encoder: gives the first token of each text as if it were all of it."""

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
        first = first_of(tokens_of_texts(self.named[SEGMENTS]).to(vectors.dtype))
        own = (first @ vectors).flatten(0, 1).unsqueeze(1)
        return BaseModelOutputWithPooling(last_hidden_state=own, pooler_output=self._pooled(own))

    def _pooled(self, own: Tensor) -> Any:
        """What the encoder's pooler makes of the first tokens, shape (texts, 1, width); None if it has none."""
        pooler = getattr(self.packed.encoder, "pooler", None)
        if isinstance(pooler, nn.Linear):  # of ALBERT
            return self.packed.encoder.pooler_activation(pooler(own[:, 0]))
        return None if pooler is None else pooler(own)


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
        self.stand_in.named = dict(zip(self.inputs, args, strict=True))
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
        named = dict(zip(self.inputs, args, strict=True))
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
        named = dict(zip(self.inputs, args, strict=True))
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
        own = tokens_of_texts(segments).to(vectors.dtype)
        counted = own
        if POOLING_MASK in features:
            counted = own * features[POOLING_MASK].unsqueeze(1).to(vectors.dtype)
        pooled = [self._pool(vectors, own, counted, mode).flatten(0, 1) for mode in self.modes]
        return {**features, "sentence_embedding": torch.cat(pooled, dim=-1) if len(pooled) > 1 else pooled[0]}

    def _pool(self, vectors: Tensor, own: Tensor, counted: Tensor, mode: str) -> Tensor:
        if mode == "cls":
            return first_of(counted) @ vectors
        if mode == "lasttoken":
            return last_of(counted) @ vectors
        weights = counted
        if mode == "weightedmean":  # by the place in the text, from 1 on
            places = torch.arange(own.shape[2], dtype=own.dtype, device=own.device)
            starts = (first_of(own) * places).sum(2, keepdim=True)
            weights = counted * (places - starts + 1)
        total = weights.sum(2, keepdim=True).clamp(min=1e-9)
        return (weights @ vectors) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


def _packed_step(step: nn.Module) -> nn.Module:
    modes = getattr(step, "modes", None)
    return step if modes is None else PackedPooling(modes)


def tokens_of_texts(segments: Tensor) -> Tensor:
    """For each text of each line, which tokens are its own.

    Args:
        segments: the number of each token's text in its line, or -1, shape (lines, tokens).

    Returns:
        bool, shape (lines, texts of a line, tokens).
    """
    texts = segments.shape[1] // TOKENS_A_TEXT
    return segments.unsqueeze(1) == torch.arange(texts, dtype=segments.dtype, device=segments.device).view(1, -1, 1)


def first_of(own: Tensor) -> Tensor:
    """The first of each text's tokens, as 0 and 1, of the same shape (lines, texts, tokens)."""
    before = torch.cat([torch.zeros_like(own[:, :, :1]), own[:, :, :-1]], dim=2)
    return own * (1 - before)


def last_of(own: Tensor) -> Tensor:
    """The last of each text's tokens, as 0 and 1, of the same shape (lines, texts, tokens)."""
    after = torch.cat([own[:, :, 1:], torch.zeros_like(own[:, :, :1])], dim=2)
    return own * (1 - after)
