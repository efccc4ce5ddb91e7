"""Trains the demonstration model `product-duplicates`: one encoder, two heads on pairs of shop listings.

The head `duplicate` predicts whether two listings are of the same item. The head `kind` predicts how
they are related. Writes the encoder as an ordinary Hugging Face folder that also contains
`heads.safetensors`. Run it from the repository root:

    python -m examples.product_duplicates.train
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModel

from examples.training import WEIGHTS, begin, fit, read_csv, save

HERE = Path(__file__).parent
# in the order of models/product-duplicates.yaml
HEADS = {
    "duplicate": ["no", "yes"],
    "kind": ["accessory", "related", "same_item", "unrelated", "variant"],
}
Pair = dict[str, str]


def main() -> None:
    tokenizer = begin()
    rows = read_csv(HERE / "train.csv")
    rows += [{**row, "text": row["text_pair"], "text_pair": row["text"]} for row in rows]
    encoder = AutoModel.from_pretrained(WEIGHTS, trust_remote_code=False)
    encoder.embeddings.requires_grad_(False)
    width = encoder.config.hidden_size
    heads = torch.nn.ModuleDict({name: torch.nn.Linear(width, len(labels)) for name, labels in HEADS.items()})

    def logits(pairs: list[Pair]) -> dict[str, torch.Tensor]:
        texts = [pair["text"] for pair in pairs], [pair["text_pair"] for pair in pairs]
        encoded = tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")
        mask = encoded["attention_mask"].unsqueeze(-1)
        pooled = (encoder(**encoded).last_hidden_state * mask).sum(1) / mask.sum(1)
        return {name: head(pooled) for name, head in heads.items()}

    def loss(chosen: list[int]) -> torch.Tensor:
        pairs = [rows[i] for i in chosen]
        losses = []
        for name, predicted in logits(pairs).items():
            targets = torch.tensor([HEADS[name].index(pair[name]) for pair in pairs])
            losses.append(torch.nn.functional.cross_entropy(predicted, targets, label_smoothing=0.05))
        return torch.stack(losses).sum()

    encoder.train()
    lengths = [len(row["text"]) + len(row["text_pair"]) for row in rows]
    fit("product-duplicates", encoder.encoder.parameters(), heads.parameters(), lengths, loss, epochs=6)

    encoder.eval()
    test = read_csv(HERE / "test.csv")
    with torch.no_grad():
        found = [{name: HEADS[name][int(row.argmax())] for name, row in logits([pair]).items()} for pair in test]
    for name in HEADS:
        right = sum(one[name] == pair[name] for one, pair in zip(found, test, strict=True))
        print(f"held-out accuracy of {name}: {right / len(test):.1%} ({right} of {len(test)} pairs)")
    folder = save(encoder, tokenizer, "product-duplicates")
    save_file(heads.state_dict(), folder / "heads.safetensors")


if __name__ == "__main__":
    main()
