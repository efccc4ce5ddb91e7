"""Trains the demonstration model `ava-intent`: the intent of a message to a support chatbot.

Fine-tunes on `train.csv`, prints the accuracy on the held-out `test.csv`, and writes an ordinary
Hugging Face folder. Run it from the repository root:

    python -m examples.ava_intent.train
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from examples.training import WEIGHTS, begin, fit, numbered, read_csv, save

HERE = Path(__file__).parent


def main() -> None:
    tokenizer = begin()
    rows = read_csv(HERE / "train.csv")
    labels = numbered(row["intent"] for row in rows)
    model = AutoModelForSequenceClassification.from_pretrained(WEIGHTS, trust_remote_code=False, **labels)
    # the pretrained word embeddings are good enough, and they are most of the weights
    model.bert.embeddings.requires_grad_(False)

    def logits(texts: list[str]) -> torch.Tensor:
        encoded = tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        return model(**encoded).logits

    def loss(chosen: list[int]) -> torch.Tensor:
        targets = torch.tensor([model.config.label2id[rows[i]["intent"]] for i in chosen])
        predicted = logits([rows[i]["text"] for i in chosen])
        return torch.nn.functional.cross_entropy(predicted, targets, label_smoothing=0.05)

    # without dropout, which doubles the time and gains nothing here
    model.eval()
    head = [*model.bert.pooler.parameters(), *model.classifier.parameters()]
    lengths = [len(tokenizer(row["text"])["input_ids"]) for row in rows]
    fit("ava-intent", model.bert.encoder.parameters(), head, lengths, loss, epochs=6)

    test = read_csv(HERE / "test.csv")
    with torch.no_grad():
        predicted = [model.config.id2label[int(logits([row["text"]]).argmax())] for row in test]
    right = sum(label == row["intent"] for label, row in zip(predicted, test, strict=True))
    count = model.config.num_labels
    print(f"held-out accuracy: {right / len(test):.1%} ({right} of {len(test)}, {count} intents)")
    save(model, tokenizer, "ava-intent")


if __name__ == "__main__":
    main()
