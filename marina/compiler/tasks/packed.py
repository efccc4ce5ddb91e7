"""Models that read packed rows: several texts in a line, where each attends to itself alone.

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

from handlers.worker.archive.signature import INPUT_IDS, POOLING_MASK, POSITION_IDS, SEGMENTS, TOKEN_TYPE_IDS
from handlers.worker.values import TOKENS_A_TEXT

MASKED = -10000.0  # exp() of it is 0 in float32, and it is finite in all 16-bit types
TABLE = "position_embeddings"  # transformers' name of a table of positions


class PackedEncoder(nn.Module):
    """An encoder of transformers that reads packed rows.

    Args:
        encoder: without a head.
        dims: the dimensions of the mask that it takes: 4 for (rows, 1, tokens, tokens) of numbers that are added,
            3 for (rows, tokens, tokens) of 0 and 1.

    Raises:
        ValueError: it has local attention of a kind for which no mask is made.
    """

    def __init__(self, encoder: nn.Module, dims: int) -> None:
        super().__init__()
        config = encoder.config
        if getattr(config, "sliding_window", None) and getattr(config, "local_attention", None) is None:
            raise ValueError(
                f"its tokens attend to {config.sliding_window} others (sliding_window), for which no mask is made"
            )
        self.encoder = _with_given_masks(encoder)
        self.dims = dims
        self._takes_positions = POSITION_IDS in inspect.signature(encoder.forward).parameters
        self._positions: Tensor | None = None
        if not self._takes_positions:
            for name, module in encoder.named_modules():
                if name.rpartition(".")[2] == TABLE and isinstance(module, nn.Embedding):
                    module.register_forward_pre_hook(self._use_positions)

    def forward(self, inputs: dict[str, Tensor]) -> Any:
        """The encoder's outputs for inputs by name, among them `SEGMENTS` and `POSITION_IDS`."""
        segments, positions = inputs[SEGMENTS], inputs[POSITION_IDS]
        encoder_inputs = {name: value for name, value in inputs.items() if name in (INPUT_IDS, TOKEN_TYPE_IDS)}
        if self._takes_positions:
            encoder_inputs[POSITION_IDS] = positions
        self._positions = positions
        try:
            return self.encoder(**encoder_inputs, attention_mask=self._mask(segments), return_dict=True)
        finally:
            self._positions = None

    def _mask(self, segments: Tensor) -> Any:
        same_text = segments.unsqueeze(2) == segments.unsqueeze(1)
        if self.dims == 3:
            return same_text.to(torch.int64)
        full_mask = _additive_mask(same_text)
        window = _window(self.encoder.config)
        if window is None:
            return full_mask
        index = torch.arange(segments.shape[1], device=segments.device)
        within_window = (index.unsqueeze(0) - index.unsqueeze(1)).abs() <= window
        local_mask = _additive_mask(same_text & within_window.unsqueeze(0))
        return {"full_attention": full_mask, "sliding_attention": local_mask}

    def _use_positions(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments if self._positions is None else (self._positions,)


class _Unmasked(nn.Module):
    """Embeddings without the mask that DeBERTa multiplies them by: no text attends to padding."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, *args: Any, mask: Any = None, **options: Any) -> Any:
        return self.embeddings(*args, **options)


def _with_given_masks(encoder: nn.Module) -> nn.Module:
    """The encoder, with the same weights, where its own code makes masks of padding only."""
    adapted = copy.copy(encoder)
    embeddings = getattr(encoder, "embeddings", None)
    if embeddings is not None and "mask" in inspect.signature(embeddings.forward).parameters:
        adapted._modules = {**encoder._modules, "embeddings": _Unmasked(embeddings)}
    if hasattr(encoder, "_update_attention_mask"):  # ModernBERT in transformers 4
        adapted._update_attention_mask = lambda masks, **_: (masks["full_attention"], masks["sliding_attention"])
    return adapted


def _additive_mask(allowed: Tensor) -> Tensor:
    """Numbers to add to attention: 0 where it is allowed, shape (rows, 1, tokens, tokens)."""
    return ((1 - allowed.to(torch.float32)) * MASKED).unsqueeze(1)


def _window(config: Any) -> int | None:
    """How far tokens attend in layers with local attention; None if the model has none."""
    size = getattr(config, "local_attention", None)
    return None if size is None else int(size) // 2


class _Unpacked(nn.Module):
    """Takes the place of the encoder in a model with a head: gives the first token of each text as its only one."""

    def __init__(self, encoder: PackedEncoder, per_token: bool) -> None:
        super().__init__()
        self.packed = encoder
        self.per_token = per_token
        self.inputs_by_name: dict[str, Tensor] = {}

    def forward(self, *_: Any, **__: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        outputs = self.packed(self.inputs_by_name)
        if self.per_token:
            return outputs
        vectors = outputs.last_hidden_state
        first = first_of(tokens_of_texts(self.inputs_by_name[SEGMENTS]).to(vectors.dtype))
        first_vectors = (first @ vectors).flatten(0, 1).unsqueeze(1)
        return BaseModelOutputWithPooling(last_hidden_state=first_vectors, pooler_output=self._pooled(first_vectors))

    def _pooled(self, first_vectors: Tensor) -> Any:
        """The output of the encoder's pooler for the first tokens, shape (texts, 1, width); None if it has none."""
        pooler = getattr(self.packed.encoder, "pooler", None)
        if isinstance(pooler, nn.Linear):  # of ALBERT
            return self.packed.encoder.pooler_activation(pooler(first_vectors[:, 0]))
        return None if pooler is None else pooler(first_vectors)


class PackedTaskModel(nn.Module):
    """The first outputs of a transformers model with a head, for packed rows.

    Args:
        model: the model, whose weights are shared.
        outputs: the number of outputs.
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
        # transformers would read the ids to warn of padding, and a graph must not depend on what is read
        self.model.warn_if_padding_and_no_attention_mask = _no_warning
        self.outputs = outputs
        self.inputs = tuple(inputs)

    def forward(self, *args: Tensor) -> tuple[Tensor, ...]:
        self.stand_in.inputs_by_name = dict(zip(self.inputs, args, strict=True))
        return tuple(self.model(input_ids=args[0], return_dict=False)[: self.outputs])


def _no_warning(*_: Any) -> None:
    """In place of a check that only warns."""


class PackedEmbeddingModel(nn.Module):
    """The modules of a `SentenceTransformer` for packed rows.

    Args:
        steps: the modules, the first of which is the encoder's, with `StaticPooling` in place of Pooling.
        width: see `EmbeddingModel`.
        inputs: names of the arguments.
        dims: see `PackedEncoder`.
        feature: see `EmbeddingModel`.
    """

    def __init__(
        self,
        steps: Sequence[nn.Module],
        width: int | None,
        inputs: Sequence[str],
        dims: int,
        feature: str = "sentence_embedding",
    ) -> None:
        super().__init__()
        self.feature = feature
        self.encoder = PackedEncoder(steps[0].auto_model, dims)
        self.steps = nn.ModuleList(_packed_step(step) for step in steps[1:])
        self.width = width
        self.inputs = tuple(inputs)

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        inputs = dict(zip(self.inputs, args, strict=True))
        features: dict[str, Any] = {"token_embeddings": self.encoder(inputs).last_hidden_state, **inputs}
        for step in self.steps:
            features = step(features)
        embedding = features[self.feature]
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
        inputs = dict(zip(self.inputs, args, strict=True))
        features = self.pooling({"token_embeddings": self.encoder(inputs).last_hidden_state, **inputs})
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
        text_tokens = tokens_of_texts(segments).to(vectors.dtype)
        pooled_tokens = text_tokens
        if POOLING_MASK in features:
            pooled_tokens = text_tokens * features[POOLING_MASK].unsqueeze(1).to(vectors.dtype)
        pooled = [self._pool(vectors, text_tokens, pooled_tokens, mode).flatten(0, 1) for mode in self.modes]
        return {**features, "sentence_embedding": torch.cat(pooled, dim=-1) if len(pooled) > 1 else pooled[0]}

    def _pool(self, vectors: Tensor, text_tokens: Tensor, pooled_tokens: Tensor, mode: str) -> Tensor:
        if mode == "cls":
            return first_of(pooled_tokens) @ vectors
        if mode == "lasttoken":
            return last_of(pooled_tokens) @ vectors
        weights = pooled_tokens
        if mode == "weightedmean":  # by the place in the text, from 1 on
            places = torch.arange(text_tokens.shape[2], dtype=text_tokens.dtype, device=text_tokens.device)
            starts = (first_of(text_tokens) * places).sum(2, keepdim=True)
            weights = pooled_tokens * (places - starts + 1)
        total = weights.sum(2, keepdim=True).clamp(min=1e-9)
        return (weights @ vectors) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


def _packed_step(step: nn.Module) -> nn.Module:
    modes = getattr(step, "modes", None)
    return step if modes is None else PackedPooling(modes)


def tokens_of_texts(segments: Tensor) -> Tensor:
    """For each text of each line, whether each token belongs to it.

    Args:
        segments: the number of each token's text in its line, or -1, shape (lines, tokens).

    Returns:
        bool, shape (lines, texts of a line, tokens).
    """
    texts = segments.shape[1] // TOKENS_A_TEXT
    return segments.unsqueeze(1) == torch.arange(texts, dtype=segments.dtype, device=segments.device).view(1, -1, 1)


def first_of(text_tokens: Tensor) -> Tensor:
    """The first of each text's tokens, as 0 and 1, of the same shape (lines, texts, tokens)."""
    before = torch.cat([torch.zeros_like(text_tokens[:, :, :1]), text_tokens[:, :, :-1]], dim=2)
    return text_tokens * (1 - before)


def last_of(text_tokens: Tensor) -> Tensor:
    """The last of each text's tokens, as 0 and 1, of the same shape (lines, texts, tokens)."""
    after = torch.cat([text_tokens[:, :, 1:], torch.zeros_like(text_tokens[:, :, :1])], dim=2)
    return text_tokens * (1 - after)
