"""What the trainings of demonstration models share."""

from __future__ import annotations

import torch

from examples.product_duplicates.pairs import Pair
from examples.product_duplicates.train import Comparer
from examples.training import BATCH_SIZE, fit


def test_stages_come_in_order_and_each_example_once_an_epoch() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    head = torch.nn.Parameter(torch.zeros(1))
    batches: list[list[int]] = []

    def loss(numbers: list[int]) -> torch.Tensor:
        batches.append(numbers)
        return (weight + head).sum()

    first, count = 2 * BATCH_SIZE + 3, 5 * BATCH_SIZE
    stages = [range(first), range(first, count)]
    fit("m", [weight], [head], [number % 7 for number in range(count)], loss, epochs=2, stages=stages)
    seen = [number for batch in batches for number in batch]
    for epoch in (seen[:count], seen[count:]):
        assert sorted(epoch[:first]) == list(range(first))
        assert sorted(epoch[first:]) == list(range(first, count))
        assert epoch != list(range(count))


def test_only_the_embeddings_of_words_in_use_are_trained() -> None:
    model = Comparer()
    pairs = [Pair("red mug", "blue mug", "no", "variant")]
    before = model.encoder.embeddings.word_embeddings.weight.detach().clone()
    scores = model.scores(pairs)
    with model.words_of(pairs):
        assert model.scores(pairs) == scores
        few = model.encoder.embeddings.word_embeddings.weight
        assert len(few) == 6  # [PAD] [CLS] [SEP] red blue mug
        few.data += 1
    changed = (model.encoder.embeddings.word_embeddings.weight != before).any(dim=1)
    assert set(changed.nonzero().flatten().tolist()) == {
        model.tokenizer.convert_tokens_to_ids(token) for token in ("[PAD]", "[CLS]", "[SEP]", "red", "blue", "mug")
    }
    assert model.scores(pairs) != scores
