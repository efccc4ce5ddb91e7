"""Trains the demonstration model `resume-ner`: names, skills, degrees, organisations and dates in resumes.

Fine-tunes on `train.txt`, which has one snippet per line with its entities marked as [text](LABEL), and on variants of
these snippets with other entities.
Prints the F1, precision and recall on the held-out `test.txt`, and writes an ordinary Hugging Face
folder. Run it from the repository root:

    python -m examples.resume_ner.train
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForTokenClassification, pipeline

from examples.resume_ner.vary import Entity, vary
from examples.training import IGNORED, SEED, WEIGHTS, begin, fit, numbered, save

HERE = Path(__file__).parent
MARK = re.compile(r"\[([^\]]+)\]\((NAME|SKILL|DEGREE|ORG|DATE)\)")
KINDS = ("NAME", "SKILL", "DEGREE", "ORG", "DATE")
REPEATS, VARIED = 3, 15  # how often each snippet is learned from, as it was written and in variants


def read(path: Path) -> list[tuple[str, list[Entity]]]:
    """The snippets of a data file, each as its text without marks and its entities."""
    snippets = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text, entities, end = "", [], 0
        for mark in MARK.finditer(line):
            text += line[end : mark.start()]
            entities.append((len(text), len(text) + len(mark[1]), mark[2]))
            text += mark[1]
            end = mark.end()
        snippets.append((text + line[end:], entities))
    return snippets


def label_tokens(encoding: Any, entities: list[Entity], label2id: dict[str, int]) -> list[int]:
    """The label ids of tokens: the label of an entity for its tokens, O elsewhere.

    The first token has no label of its own: two entities of a label hardly ever touch, and with little data such labels
    cut entities into pieces.
    """
    labels = []
    for (start, end), special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True):
        inside = [label for first, last, label in entities if first <= start and end <= last]
        labels.append(IGNORED if special else label2id[inside[0] if inside else "O"])
    return labels


def main() -> None:
    tokenizer = begin()
    written = read(HERE / "train.txt")
    others: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for text, entities in written:
        for start, end, kind in entities:
            others[kind].append(text[start:end])
    chance = random.Random(SEED)
    snippets = [*written * REPEATS, *(vary(snippet, others, chance) for snippet in written * VARIED)]
    labels = numbered(["O", *KINDS])
    model = AutoModelForTokenClassification.from_pretrained(WEIGHTS, trust_remote_code=False, **labels)
    model.bert.embeddings.requires_grad_(False)

    def loss(chosen: list[int]) -> torch.Tensor:
        batch = tokenizer([snippets[i][0] for i in chosen], padding=True, truncation=True, return_tensors="pt")
        targets = [
            label_tokens(encoding, snippets[i][1], model.config.label2id)
            for i, encoding in zip(chosen, batch.encodings, strict=True)
        ]
        return model(**batch, labels=torch.tensor(targets)).loss

    # without dropout: variants take its place
    model.eval()
    lengths = [len(tokenizer(text)["input_ids"]) for text, _ in snippets]
    fit("resume-ner", model.bert.encoder.parameters(), model.classifier.parameters(), lengths, loss, epochs=1)

    tag = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="first", trust_remote_code=False
    )
    test = read(HERE / "test.txt")
    expected = {(i, *entity) for i, (_, entities) in enumerate(test) for entity in entities}
    tagged = {(i, e["start"], e["end"], e["entity_group"]) for i, (text, _) in enumerate(test) for e in tag(text)}
    precision, recall = len(tagged & expected) / len(tagged), len(tagged & expected) / len(expected)
    f1 = 2 * precision * recall / (precision + recall)
    print(f"held-out entities: F1 {f1:.1%} (precision {precision:.1%}, recall {recall:.1%}, {len(expected)} entities)")
    save(model, tokenizer, "resume-ner", [{"text": text} for text, _ in test])


if __name__ == "__main__":
    main()
