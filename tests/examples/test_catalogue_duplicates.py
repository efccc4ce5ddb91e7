"""Blocking against a comparison of all pairs, the listings that are made, and what is known of their pairs."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.catalogue_duplicates.block import nearest_pairs, same_number_pairs
from examples.catalogue_duplicates.make_data import kind_of, make_listings
from examples.product_duplicates.pairs import AGREEMENTS, HEAD, Agreement, pair_of, training_pairs
from examples.product_duplicates.train import threshold_for, token_targets
from examples.training import IGNORED

PARTS = ("training", "validation", "demonstration")


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


@given(st.integers(50, 400), st.sampled_from(PARTS), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_listings_are_reproducible_and_some_share_an_item(count: int, part: str, seed: int) -> None:
    listings = make_listings(count, part, seed)
    assert listings == make_listings(count, part, seed)
    assert len(listings) == count
    items = {listing.item: listing.offered for listing in listings}
    assert count / 3 < len(items) < count
    for left, right in itertools.pairwise(listings):
        is_same = kind_of(left.offered, right.offered) == "same_item"
        assert is_same == (left.item == right.item)


def test_the_parts_of_the_data_share_no_product_and_no_maker() -> None:
    names, makers = [], []
    for part in PARTS:
        offered = [listing.offered for listing in make_listings(1500, part)]
        names.append({item.product["names"][0] for item in offered})
        makers.append({item.maker for item in offered})
    for left, right in itertools.combinations(range(len(PARTS)), 2):
        assert not names[left] & names[right]
        assert not makers[left] & makers[right]


def test_a_model_number_is_the_same_however_it_is_written() -> None:
    texts = ["Vel AB-120 mouse", "mouse ab 120 by Vel", "AB120 mouse", "Vel AB-130 mouse", "mouse for 2 people"]
    assert same_number_pairs(texts).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_the_threshold_is_the_lowest_with_enough_precision() -> None:
    scores = np.array([0.99, 0.95, 0.90, 0.80, 0.70, 0.10])
    is_same = np.array([True, True, False, True, True, False])
    assert threshold_for(scores, is_same, 0.8) == 0.7
    assert threshold_for(scores, is_same, 0.99) == 0.95
    assert threshold_for(scores, ~is_same, 1.0) == 1.0


@given(st.sampled_from(PARTS), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_spans_are_where_the_attributes_stand(part: str, seed: int) -> None:
    for listing in make_listings(200, part, seed):
        words = {span.attribute: listing.text[span.start : span.end] for span in listing.spans}
        assert len(words) == len(listing.spans)
        ordered = sorted(listing.spans)
        assert all(left.end <= right.start for left, right in itertools.pairwise(ordered))
        assert words["maker"].lower() == listing.offered.maker.lower()
        letters = str.maketrans("", "", "- ")
        assert words["code"].translate(letters).lower() == listing.offered.code.translate(letters).lower()
        assert {name for name in words if name not in HEAD} == dict(listing.offered.values).keys()
        assert words.get("sold_for_it", "").lower() == listing.offered.sold_for_it.lower()


@given(st.sampled_from(PARTS), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_a_pair_is_of_one_item_if_all_attributes_agree(part: str, seed: int) -> None:
    listings = sorted(make_listings(200, part, seed), key=lambda listing: listing.item)
    for left, right in itertools.pairwise(listings):
        pair = pair_of(left, right)
        said = {AGREEMENTS[agreement.label] for agreements in pair.agreements for agreement in agreements}
        assert (pair.duplicate == "yes") == (said == {"the same"}) == (pair.kind == "same_item")
        if left.item == right.item:
            assert pair.duplicate == "yes"
        elif left.offered.family == right.offered.family:
            assert pair.duplicate == "no"


def test_training_pairs_are_whole_and_in_parts() -> None:
    listings = make_listings(400, "training")
    counts = {"whole": 50, "heads": 40, "values": 30}
    parts, whole = training_pairs(listings, counts)
    texts = {listing.text for listing in listings}
    assert (len(parts), len(whole)) == (70, 50)
    assert all({pair.text, pair.text_pair} <= texts for pair in whole)
    assert not {pair.text for pair in parts[40:]} & texts
    assert all(any(pair.text in text for text in texts) for pair in parts)
    for kind in (parts[:40], parts[40:], whole):
        assert {pair.duplicate for pair in kind} == {"no", "yes"}
    assert (parts, whole) == training_pairs(listings, counts)


def test_tokens_learn_what_the_other_listing_says() -> None:
    # [CLS] red mug [SEP] blue mug [SEP]
    encoding = SimpleNamespace(
        offsets=[(0, 0), (0, 3), (4, 7), (0, 0), (0, 4), (5, 8), (0, 0)], sequence_ids=[None, 0, 0, None, 1, 1, None]
    )
    other, same = AGREEMENTS.index("another"), AGREEMENTS.index("the same")
    agreements = ((Agreement(0, 3, other), Agreement(4, 7, same)), (Agreement(0, 4, other),))
    assert token_targets(encoding, agreements) == [IGNORED, other, same, IGNORED, other, IGNORED, IGNORED]
