"""Trains the demonstration model `product-duplicates`: one encoder, two heads on pairs of shop listings.

The head `duplicate` predicts whether two listings are of the same item. The head `kind` predicts how
they are related. The pairs come from made catalogues (`examples/catalogue_duplicates/make_data.py`) and from
`train.csv`, which people wrote. A third head, which is not kept, learns of each attribute whether the other listing
says the same: the model learns to compare from that, many times faster than from the answers alone.

Prints the threshold from which "yes" is right on a catalogue that was not trained on, and the precision and recall with
it on a third one. Writes the encoder as an ordinary Hugging Face folder that also contains `heads.safetensors`. Run it
from the repository root:

    python -m examples.product_duplicates.train
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel

from examples.catalogue_duplicates.block import block
from examples.catalogue_duplicates.make_data import Listing, make_listings
from examples.product_duplicates.pairs import AGREEMENTS, Agreement, Pair, pair_of, read_pairs, training_pairs
from examples.training import IGNORED, WEIGHTS, begin, fit, save

HERE = Path(__file__).parent
# in the order of models/product-duplicates.yaml
HEADS = {
    "duplicate": ["no", "yes"],
    "kind": ["accessory", "related", "same_item", "unrelated", "variant"],
}
TRAINING_LISTINGS = 7000
TRAINING_PAIRS = {"whole": 7600, "heads": 1500, "values": 4500}
LAST_SHARE = 0.7  # of the pairs of whole listings, which are learned from alone, after all others
VALIDATION_LISTINGS, TEST_LISTINGS, PAIRS_A_LISTING = 500, 100, 8
AGREEMENT_WEIGHT = 2.0  # of its loss, in that of all heads
MIN_PRECISION = 0.92  # on the validation catalogue
EXAMPLES = 400  # pairs to judge lower precisions on


class Comparer:
    """The encoder with its heads."""

    def __init__(self) -> None:
        self.tokenizer = begin()
        self.encoder = AutoModel.from_pretrained(WEIGHTS, trust_remote_code=False)
        # among word embeddings, colours are alike: they learn that "sand" is beige and not navy
        self.encoder.embeddings.position_embeddings.requires_grad_(False)
        self.encoder.embeddings.token_type_embeddings.requires_grad_(False)
        # no dropout: no pair is seen twice, so there is nothing to learn by heart
        self.encoder.eval()
        words = self.encoder.embeddings.word_embeddings
        self.places = torch.arange(len(words.weight))  # of the embedding of each token
        width = self.encoder.config.hidden_size
        self.heads = torch.nn.ModuleDict({name: torch.nn.Linear(width, len(labels)) for name, labels in HEADS.items()})
        self.agreement = torch.nn.Linear(width, len(AGREEMENTS))

    def vectors(self, *texts: list[str]) -> tuple[list[Any], torch.Tensor, torch.Tensor]:
        """Texts or pairs of texts: their encodings, the vectors of their tokens, and the mean of each's vectors."""
        encoded = self.tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")
        encoded["input_ids"] = self.places[encoded["input_ids"]]
        mask = encoded["attention_mask"].unsqueeze(-1)
        vectors = self.encoder(**encoded).last_hidden_state
        return encoded.encodings, vectors, (vectors * mask).sum(1) / mask.sum(1)

    @contextmanager
    def words_of(self, pairs: list[Pair]) -> Iterator[None]:
        """Train only the embeddings of words in these pairs: over all of them, a step takes a fifth longer."""
        embeddings, places = self.encoder.embeddings.word_embeddings, self.places
        ids = {token for pair in pairs for token in self.tokenizer(pair.text, pair.text_pair)["input_ids"]}
        used = sorted(ids | {self.tokenizer.pad_token_id})
        self.places = torch.zeros_like(places)
        self.places[used] = torch.arange(len(used))
        few = torch.nn.Embedding(len(used), embeddings.embedding_dim, _weight=embeddings.weight.detach()[used])
        self.encoder.embeddings.word_embeddings = few
        try:
            yield
        finally:
            embeddings.weight.data[used] = few.weight.data
            self.encoder.embeddings.word_embeddings, self.places = embeddings, places

    def loss(self, pairs: list[Pair]) -> torch.Tensor:
        """The loss of all heads together."""
        encodings, vectors, pooled = self.vectors([pair.text for pair in pairs], [pair.text_pair for pair in pairs])
        total = torch.zeros(())
        for name, head in self.heads.items():
            targets = torch.tensor([HEADS[name].index(getattr(pair, name)) for pair in pairs])
            total = total + cross_entropy(head(pooled), targets)
        targets = torch.tensor(
            [token_targets(encoding, pair.agreements) for encoding, pair in zip(encodings, pairs, strict=True)]
        )
        known = targets != IGNORED
        if known.any():
            agreement = cross_entropy(self.agreement(vectors[known]), targets[known])
            total = total + AGREEMENT_WEIGHT * agreement
        return total

    def scores(self, pairs: list[Pair]) -> npt.NDArray[np.float64]:
        """The score of "yes" of each pair."""
        scores = np.zeros(len(pairs))
        order = sorted(range(len(pairs)), key=lambda number: len(pairs[number].text + pairs[number].text_pair))
        for start in range(0, len(order), 64):
            batch = [pairs[number] for number in order[start : start + 64]]
            with torch.inference_mode():
                *_, pooled = self.vectors([pair.text for pair in batch], [pair.text_pair for pair in batch])
                logits = self.heads["duplicate"](pooled)
            scores[order[start : start + 64]] = logits.softmax(1)[:, 1].numpy()
        return scores

    def blocked(self, listings: list[Listing]) -> list[Pair]:
        """The pairs that blocking would have compared."""
        texts = [listing.text for listing in listings]
        with torch.inference_mode():
            vectors = torch.cat([self.vectors(texts[start : start + 64])[2] for start in range(0, len(texts), 64)])
        unit = normalize(vectors, dim=1).numpy()
        pairs = block(unit, texts, PAIRS_A_LISTING * len(listings))
        return [pair_of(listings[left], listings[right]) for left, right in pairs]


def token_targets(encoding: Any, agreements: tuple[tuple[Agreement, ...], ...]) -> list[int]:
    """Of each token what the other listing says of its attribute, as a place in AGREEMENTS, or IGNORED."""
    targets = []
    for (start, end), sequence in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        attributes = agreements[sequence] if sequence is not None else ()
        labels = [attribute.label for attribute in attributes if start < attribute.end and end > attribute.start]
        targets.append(labels[0] if labels else IGNORED)
    return targets


def threshold_for(scores: npt.NDArray[np.float64], is_same: npt.NDArray[np.bool_], min_precision: float) -> float:
    """The lowest score from which at least `min_precision` of the pairs are of the same item, in three digits."""
    order = np.argsort(-scores)
    precision = np.cumsum(is_same[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(precision >= min_precision)
    return float(np.ceil(scores[order][enough[-1]] * 1000) / 1000) if len(enough) else 1.0


def same(pairs: list[Pair]) -> npt.NDArray[np.bool_]:
    """Whether each pair is of the same item."""
    return np.array([pair.duplicate == "yes" for pair in pairs])


def main() -> None:
    """Train, choose the threshold, test and save."""
    model = Comparer()
    validation = model.blocked(make_listings(VALIDATION_LISTINGS, "validation"))
    test = model.blocked(make_listings(TEST_LISTINGS, "demonstration", seed=1))
    parts, whole = training_pairs(make_listings(TRAINING_LISTINGS, "training"), TRAINING_PAIRS)
    pairs = [*read_pairs(HERE / "train.csv"), *parts, *whole]
    first = len(pairs) - round(LAST_SHARE * len(whole))
    with model.words_of(pairs):
        fit(
            "product-duplicates",
            (parameter for parameter in model.encoder.parameters() if parameter.requires_grad),
            [*model.heads.parameters(), *model.agreement.parameters()],
            [len(model.tokenizer(pair.text, pair.text_pair)["input_ids"]) for pair in pairs],
            lambda numbers: model.loss([pairs[number] for number in numbers]),
            epochs=1,
            learning_rate=2e-4,
            sorted_batches=24,
            stages=[range(first), range(first, len(pairs))],
        )

    threshold = threshold_for(model.scores(validation), same(validation), MIN_PRECISION)
    print(f"threshold: from {threshold:.3f} on, {MIN_PRECISION:.0%} of the validation catalogue's pairs are duplicates")
    called_same, is_same = model.scores(test) >= threshold, same(test)
    right = int((called_same & is_same).sum())
    print(f"held-out catalogue: precision {right / max(1, called_same.sum()):.1%}, recall {right / is_same.sum():.1%}")
    written = read_pairs(HERE / "test.csv")
    agreed = (model.scores(written) >= threshold) == same(written)
    print(f"held-out pairs that people wrote: {agreed.mean():.1%} ({agreed.sum()} of {len(written)})")
    examples = [{"text": pair.text, "text_pair": pair.text_pair} for pair in (*written, *validation)]
    folder = save(model.encoder, model.tokenizer, "product-duplicates", examples[:EXAMPLES])
    save_file(model.heads.state_dict(), folder / "heads.safetensors")


if __name__ == "__main__":
    main()
