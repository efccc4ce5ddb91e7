"""Small random models of every encoder architecture, each with a tokenizer of its own kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.conftest import WORDS, save_tokenizer

SMALL: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 72,
    "initializer_range": 0.3,
}
DISTILBERT = {
    "vocab_size": 300,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 64,
    "max_position_embeddings": 72,
}
# of an architecture: the prefix of its classes, its configuration, its kind of tokenizer, and whether that gives
# token types
Described = tuple[str, dict[str, Any], str, bool]
ARCHITECTURES: dict[str, Described] = {
    "bert": ("Bert", SMALL, "wordpiece", True),
    "distilbert": ("DistilBert", {**DISTILBERT, "initializer_range": 0.3}, "wordpiece", False),
    "roberta": ("Roberta", {**SMALL, "pad_token_id": 1, "type_vocab_size": 1}, "bytes", False),
    "xlm-roberta": ("XLMRoberta", {**SMALL, "pad_token_id": 1, "type_vocab_size": 1}, "unigram", False),
    "camembert": ("Camembert", {**SMALL, "pad_token_id": 1, "type_vocab_size": 1}, "unigram", False),
    "albert": ("Albert", {**SMALL, "embedding_size": 16}, "unigram", True),
    "electra": ("Electra", {**SMALL, "embedding_size": 16}, "wordpiece", True),
    "mpnet": ("MPNet", {**SMALL, "pad_token_id": 1}, "wordpiece", False),
    "deberta-v2": (
        "DebertaV2",
        {
            **SMALL,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 8,
            "type_vocab_size": 0,
        },
        "unigram",
        True,
    ),
    "modernbert": (
        "ModernBert",
        {**SMALL, "pad_token_id": 1, "local_attention": 8, "global_attn_every_n_layers": 2},
        "bytes",
        False,
    ),
}
# those that the installed transformers knows
ARCHITECTURES = {
    name: described for name, described in ARCHITECTURES.items() if hasattr(transformers, f"{described[0]}Model")
}
SUFFIXES = {
    "sentence-embedding": "Model",
    "text-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
    "sparse-embedding": "ForMaskedLM",
}
NER_LABELS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")


def save_model(
    folder: Path, architecture: str, task: str, seed: int = 0, described: Described | None = None, **options: Any
) -> Path:
    """Write a random model of an architecture for a task as an ordinary Hugging Face folder."""
    prefix, config, kind, types = described or ARCHITECTURES[architecture]
    if task == "token-classification":
        options["id2label"] = dict(enumerate(NER_LABELS))
        options["label2id"] = {label: number for number, label in enumerate(NER_LABELS)}
    torch.manual_seed(seed)
    model_class = getattr(transformers, f"{prefix}{SUFFIXES[task]}")
    model = model_class(model_class.config_class(**{**config, **options}))
    model.save_pretrained(folder)
    if kind == "wordpiece":
        save_tokenizer(folder)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    else:
        tokenizer = _trained(kind, types)
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    # transformers 4 does not write what is set afterwards
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_input_names": names}))
    return folder


def _trained(kind: str, types: bool) -> PreTrainedTokenizerFast:
    """A byte-level BPE as RoBERTa's, or a unigram model as XLM-R's, with <s> and <pad> at 0 and 1."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    text = [" ".join(WORDS), " ".join(reversed(WORDS)), "Grüße aus Köln, über die Straße! 100% 3.14 (ok)"] * 4
    if kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer: Any = trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(text, trainer)
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False
        )
        tokenizer.train_from_iterator(text, trainer)
        pair = "<s> $A </s> $B:1 </s>:1" if types else "<s> $A </s> $B </s>"
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    names = {"bos_token": "<s>", "cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
