"""Trains the demonstration model `product-duplicates`: one encoder, two heads on pairs of shop listings.

The head `duplicate` predicts whether two listings are of the same item. The head `kind` predicts how
they are related. The pairs come from made catalogues (`examples/catalogue_duplicates/make_data.py`) and from
`train.csv`, which people wrote. Prints the threshold from which "yes" is right on a catalogue that was not trained on,
and the precision and recall with it on a third one. Writes the encoder as an ordinary Hugging Face folder that also
contains `heads.safetensors`. Run it from the repository root:

    python -m examples.product_duplicates.train
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from transformers import AutoModel

from examples.catalogue_duplicates.block import block
from examples.catalogue_duplicates.make_data import Listing, kind_of, make_listings
from examples.training import SEED, WEIGHTS, begin, fit, read_csv, save

HERE = Path(__file__).parent
# in the order of models/product-duplicates.yaml
HEADS = {
    "duplicate": ["no", "yes"],
    "kind": ["accessory", "related", "same_item", "unrelated", "variant"],
}
TRAINING_LISTINGS, TRAINING_PAIRS = 6000, 8500
REPEATS = 4  # of what people wrote, which is less
# pairs of a listing with others of the same item, model, family and kind of product, and with any: the same model in
# another variant is the hardest to tell apart
SHARES = {"item": 0.38, "model": 0.42, "family": 0.1, "product": 0.05, "any": 0.05}
VALIDATION_LISTINGS, TEST_LISTINGS, PAIRS_A_LISTING = 500, 600, 8
MIN_PRECISION = 0.9  # on the validation catalogue
EXAMPLES = 400  # pairs to judge lower precisions on
Pair = dict[str, str]


def pair_of(left: Listing, right: Listing) -> Pair:
    """A pair with the labels of both heads."""
    kind = kind_of(left.offered, right.offered)
    return {
        "text": left.text,
        "text_pair": right.text,
        "duplicate": "yes" if kind == "same_item" else "no",
        "kind": kind,
    }


def training_pairs(listings: list[Listing], count: int) -> list[Pair]:
    """Pairs of listings, most of which are hard to tell apart."""
    chance = random.Random(SEED)
    groups: dict[str, dict[object, list[Listing]]] = {share: defaultdict(list) for share in SHARES}
    for listing in listings:
        for share, key in _keys(listing).items():
            groups[share][key].append(listing)
    pairs: list[Pair] = []
    while len(pairs) < count:
        left = chance.choice(listings)
        (share,) = chance.choices(list(SHARES), list(SHARES.values()))
        right = chance.choice(groups[share][_keys(left)[share]])
        if left.text != right.text:
            pairs.append(pair_of(left, right))
    return pairs


def _keys(listing: Listing) -> dict[str, object]:
    """What a listing has in common with the others of each group."""
    offered = listing.offered
    return {
        "item": listing.item,
        "model": (offered.family, offered.code),
        "family": offered.family,
        "product": offered.product["names"][0],
        "any": None,
    }


class Comparer:
    """The encoder with both heads."""

    def __init__(self) -> None:
        self.tokenizer = begin()
        self.encoder = AutoModel.from_pretrained(WEIGHTS, trust_remote_code=False)
        self.encoder.embeddings.requires_grad_(False)
        width = self.encoder.config.hidden_size
        self.heads = torch.nn.ModuleDict({name: torch.nn.Linear(width, len(labels)) for name, labels in HEADS.items()})

    def pool(self, *texts: list[str]) -> torch.Tensor:
        """The mean of the token vectors of each text or pair of texts."""
        encoded = self.tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")
        mask = encoded["attention_mask"].unsqueeze(-1)
        pooled: torch.Tensor = (self.encoder(**encoded).last_hidden_state * mask).sum(1) / mask.sum(1)
        return pooled

    def logits(self, pairs: list[Pair]) -> dict[str, torch.Tensor]:
        """The logits of each head."""
        pooled = self.pool([pair["text"] for pair in pairs], [pair["text_pair"] for pair in pairs])
        return {name: head(pooled) for name, head in self.heads.items()}

    def loss(self, pairs: list[Pair]) -> torch.Tensor:
        """The loss of both heads together."""
        losses = []
        for name, predicted in self.logits(pairs).items():
            targets = torch.tensor([HEADS[name].index(pair[name]) for pair in pairs])
            losses.append(torch.nn.functional.cross_entropy(predicted, targets, label_smoothing=0.02))
        return torch.stack(losses).sum()

    def scores(self, pairs: list[Pair]) -> npt.NDArray[np.float64]:
        """The score of "yes" of each pair."""
        scores = np.zeros(len(pairs))
        order = sorted(range(len(pairs)), key=lambda number: len(pairs[number]["text"] + pairs[number]["text_pair"]))
        for start in range(0, len(order), 64):
            numbers = order[start : start + 64]
            with torch.inference_mode():
                logits = self.logits([pairs[number] for number in numbers])["duplicate"]
            scores[numbers] = logits.softmax(1)[:, 1].numpy()
        return scores

    def blocked(self, listings: list[Listing]) -> list[Pair]:
        """The pairs that blocking would have compared."""
        texts = [listing.text for listing in listings]
        with torch.inference_mode():
            vectors = torch.cat([self.pool(texts[start : start + 64]) for start in range(0, len(texts), 64)])
        unit = torch.nn.functional.normalize(vectors, dim=1).numpy()
        pairs = block(unit, texts, PAIRS_A_LISTING * len(listings))
        return [pair_of(listings[left], listings[right]) for left, right in pairs]


def threshold_for(scores: npt.NDArray[np.float64], is_same: npt.NDArray[np.bool_], min_precision: float) -> float:
    """The lowest score from which at least `min_precision` of the pairs are of the same item, in three digits."""
    order = np.argsort(-scores)
    precision = np.cumsum(is_same[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(precision >= min_precision)
    return float(np.ceil(scores[order][enough[-1]] * 1000) / 1000) if len(enough) else 1.0


def same(pairs: list[Pair]) -> npt.NDArray[np.bool_]:
    """Whether each pair is of the same item."""
    return np.array([pair["duplicate"] == "yes" for pair in pairs])


def main() -> None:
    """Train, choose the threshold, test and save."""
    model = Comparer()
    model.encoder.eval()
    validation = model.blocked(make_listings(VALIDATION_LISTINGS, "validation"))
    test = model.blocked(make_listings(TEST_LISTINGS, "demonstration", seed=1))
    rows = REPEATS * read_csv(HERE / "train.csv")
    rows += training_pairs(make_listings(TRAINING_LISTINGS, "training"), TRAINING_PAIRS)

    model.encoder.train()
    lengths = [len(row["text"]) + len(row["text_pair"]) for row in rows]
    body = model.encoder.encoder.parameters()
    fit(
        "product-duplicates",
        body,
        model.heads.parameters(),
        lengths,
        lambda numbers: model.loss([rows[number] for number in numbers]),
        epochs=1,
        learning_rate=2e-4,
    )
    model.encoder.eval()

    threshold = threshold_for(model.scores(validation), same(validation), MIN_PRECISION)
    print(f"threshold: from {threshold:.3f} on, {MIN_PRECISION:.0%} of the validation catalogue's pairs are duplicates")
    found, is_same = model.scores(test) >= threshold, same(test)
    right = int((found & is_same).sum())
    print(f"held-out catalogue: precision {right / max(1, found.sum()):.1%}, recall {right / is_same.sum():.1%}")
    written = read_csv(HERE / "test.csv")
    agreed = (model.scores(written) >= threshold) == same(written)
    print(f"held-out pairs that people wrote: {agreed.mean():.1%} ({agreed.sum()} of {len(written)})")
    examples = [{"text": pair["text"], "text_pair": pair["text_pair"]} for pair in (*written, *validation)]
    folder = save(model.encoder, model.tokenizer, "product-duplicates", examples[:EXAMPLES])
    save_file(model.heads.state_dict(), folder / "heads.safetensors")


if __name__ == "__main__":
    main()
