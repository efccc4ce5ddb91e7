"""The way before: eager models in float32, padded to 512 tokens, one text after the other, as Darwinbox had them."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

TOKENS = 512


class Before:
    """Embeds a text and finds its entities, on all cores.

    Args:
        sources: the folders of the models for embeddings and for entities.
    """

    def __init__(self, sources: tuple[Path, Path]) -> None:
        self._models = [
            (
                AutoTokenizer.from_pretrained(source, trust_remote_code=False),
                kind.from_pretrained(source, trust_remote_code=False).eval(),
            )
            for kind, source in zip((AutoModel, AutoModelForTokenClassification), sources, strict=True)
        ]

    @torch.inference_mode()
    def understand(self, text: str) -> None:
        """Compute both models, and throw the answers away."""
        for tokenizer, model in self._models:
            model(**tokenizer(text, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"))
