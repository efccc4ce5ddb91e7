"""The way before: eager models in float32, padded to 512 tokens, one text after the other, as Darwinbox had them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

TOKENS = 512


def seconds_a_text(sources: tuple[Path, Path], texts: Sequence[str]) -> float:
    """Seconds to embed a text and to find its entities, on all cores.

    Args:
        sources: the folders of the models for embeddings and for entities.
        texts: the texts to measure on.
    """
    models = [
        kind.from_pretrained(source, trust_remote_code=False)
        for kind, source in zip((AutoModel, AutoModelForTokenClassification), sources, strict=True)
    ]
    tokenizers = [AutoTokenizer.from_pretrained(source, trust_remote_code=False) for source in sources]
    with torch.inference_mode():

        def understand(text: str) -> None:
            for model, tokenizer in zip(models, tokenizers, strict=True):
                encoded = tokenizer(text, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt")
                model.eval()(**encoded)

        understand(texts[0])  # warms up
        start = time.perf_counter()
        for text in texts:
            understand(text)
        return (time.perf_counter() - start) / len(texts)
