"""Trains the demonstration model `paraphrase`: predicts whether two questions or statements mean the same.

Fine-tunes on the pairs of `train.csv` in both orders, prints the accuracy on the held-out
`test.csv`, and writes an ordinary Hugging Face folder. Run it from the repository root:

    python -m examples.paraphrase.train
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from examples.training import WEIGHTS, begin, fit, numbered, read_csv, save

HERE = Path(__file__).parent


def main() -> None:
    tokenizer = begin()
    pairs = [(row["text"], row["text_pair"], row["label"]) for row in read_csv(HERE / "train.csv")]
    pairs += [(second, first, label) for first, second, label in pairs]
    labels = numbered(label for *_, label in pairs)
    model = AutoModelForSequenceClassification.from_pretrained(WEIGHTS, trust_remote_code=False, **labels)
    model.bert.embeddings.requires_grad_(False)

    def logits(chosen: list[tuple[str, str, str]]) -> torch.Tensor:
        first, second = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
        return model(**tokenizer(first, second, padding=True, truncation=True, return_tensors="pt")).logits

    def loss(chosen: list[int]) -> torch.Tensor:
        batch = [pairs[i] for i in chosen]
        targets = torch.tensor([model.config.label2id[label] for *_, label in batch])
        return torch.nn.functional.cross_entropy(logits(batch), targets, label_smoothing=0.05)

    model.train()
    head = [*model.bert.pooler.parameters(), *model.classifier.parameters()]
    lengths = [len(first) + len(second) for first, second, _ in pairs]
    fit("paraphrase", model.bert.encoder.parameters(), head, lengths, loss, epochs=6)

    model.eval()
    test = [(row["text"], row["text_pair"], row["label"]) for row in read_csv(HERE / "test.csv")]
    with torch.no_grad():
        right = sum(model.config.id2label[int(logits([pair]).argmax())] == pair[2] for pair in test)
    print(f"held-out accuracy: {right / len(test):.1%} ({right} of {len(test)} pairs)")
    save(model, tokenizer, "paraphrase")


if __name__ == "__main__":
    main()
