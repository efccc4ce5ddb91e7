"""Small random models as sentence-transformers writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling

from tests.conftest import save_tiny_model

WIDTH = 32  # of the encoder's token vectors
PROMPTS = {"query": "change the ", "passage": "invoice "}


def save_embedder(
    folder: Path, *modules: Callable[[], Any], max_seq_length: int | None = None, seed: int = 0, **options: Any
) -> Path:
    """Write a model with modules after its encoder, by default a mean.

    Args:
        folder: to write to.
        modules: each makes one.
        max_seq_length: of the model.
        seed: of its weights.
        options: of `SentenceTransformer`, for example prompts.
    """
    import torch

    encoder = Transformer(str(save_tiny_model(folder.with_name(f"{folder.name}-encoder"), "sentence-embedding", seed)))
    torch.manual_seed(seed)
    own = [make() for make in modules] or [Pooling(WIDTH, "mean")]
    model = SentenceTransformer(modules=[encoder, *own], device="cpu", **options)
    if max_seq_length:
        model.max_seq_length = max_seq_length
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def save_sparse_encoder(folder: Path, pooling: Mapping[str, Any] = {}, **options: Any) -> Path:
    """Write a random SPLADE model.

    Args:
        folder: to write to.
        pooling: options of its pooling.
        options: of `SparseEncoder`, for example prompts.
    """
    language_model = save_tiny_model(folder.with_name(f"{folder.name}-encoder"), "sparse-embedding", seed=3)
    encoder = Transformer(str(language_model), transformer_task="fill-mask")
    model = SparseEncoder(modules=[encoder, SpladePooling(**pooling)], device="cpu", **options)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def save_late_interaction(
    folder: Path, encoder_options: Mapping[str, Any] = {}, mask_options: Mapping[str, Any] = {}, **options: Any
) -> Path:
    """Write a random model with a vector of 8 numbers for each token, as sentence-transformers 6 does.

    Args:
        folder: to write to.
        encoder_options: of the encoder, for example query_expansion.
        mask_options: of the mask, for example skiplist_words.
        options: of `MultiVectorEncoder`, for example prompts.
    """
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize
    from torch import nn

    weights = save_tiny_model(folder.with_name(f"{folder.name}-encoder"), "sentence-embedding", seed=4)
    encoder = Transformer(str(weights), **encoder_options)
    names = {"module_input_name": "token_embeddings"}
    dense = Dense(WIDTH, 8, bias=False, activation_function=nn.Identity(), **names)
    modules = [encoder, dense, MultiVectorMask(**mask_options), Normalize(**names)]
    MultiVectorEncoder(modules=modules, device="cpu", **options).save_pretrained(str(folder), create_model_card=False)
    return folder


def edit_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file, which may be missing."""
    document = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**document, **fields}))
