"""Blocking against a comparison of all pairs, and the listings that are made."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.catalogue_duplicates.block import nearest_pairs
from examples.catalogue_duplicates.make_data import make_listings


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(1, 400), st.integers(0, 1000))
def test_pairs_are_the_nearest_and_each_is_there_once(count: int, pairs: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = [tuple(pair) for pair in nearest_pairs(vectors, pairs).tolist()]
    assert len(found) == len(set(found)) <= pairs
    assert all(0 <= left < right < count for left, right in found)
    every = sorted(
        itertools.combinations(range(count), 2), key=lambda pair: -float(vectors[pair[0]] @ vectors[pair[1]])
    )
    # the nearest pair of all, and of each listing as long as there is room
    assert found[0] == every[0]
    if len(found) < pairs:
        for own in range(count):
            assert next(pair for pair in every if own in pair) in found


def test_listings_are_reproducible_and_some_share_an_item() -> None:
    listings = make_listings(500)
    assert listings == make_listings(500)
    assert len(listings) == 500
    assert 200 < len({one.item for one in listings}) < 450
    assert len({one.text for one in listings}) > 480
