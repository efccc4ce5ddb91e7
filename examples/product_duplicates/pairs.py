"""Pairs of listings with what is known of them: those that people wrote, and those of made catalogues."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from examples.catalogue_duplicates.make_data import Listing, kind_of
from examples.training import SEED, read_csv

# pairs of a listing with others of the same item, of the same model, of the same family, that are alike but for their
# maker and model, and with any: the same model in another variant is the hardest to tell apart
SHARES = {"item": 0.37, "model": 0.38, "family": 0.1, "alike": 0.12, "any": 0.03}
# the attributes that say what is offered; the others are values
HEAD = ("maker", "code", "name", "sold_for_it")
# what the other listing says of an attribute
AGREEMENTS = ["nothing", "the same", "another"]


class Agreement(NamedTuple):
    """The characters of an attribute in a text, and the place in AGREEMENTS of what the other listing says of it."""

    start: int
    end: int
    label: int


class Pair(NamedTuple):
    """Two listings with the labels of both heads, and what is known of the attributes of each."""

    text: str
    text_pair: str
    duplicate: str
    kind: str
    agreements: tuple[tuple[Agreement, ...], tuple[Agreement, ...]] = ((), ())


def read_pairs(path: Path) -> list[Pair]:
    """Pairs that people wrote, of which the attributes are not known."""
    return [Pair(row["text"], row["text_pair"], row["duplicate"], row["kind"]) for row in read_csv(path)]


def pair_of(left: Listing, right: Listing) -> Pair:
    """A pair of made listings. They are of the same item if no attribute says otherwise."""
    agreements = (_agreements(left, right), _agreements(right, left))
    is_same = all(AGREEMENTS[each.label] == "the same" for each in (*agreements[0], *agreements[1]))
    kind = "same_item" if is_same else kind_of(left.offered, right.offered)
    return Pair(left.text, right.text, "yes" if is_same else "no", kind, agreements)


def _agreements(listing: Listing, other: Listing) -> tuple[Agreement, ...]:
    agreements = []
    for start, end, name in listing.spans:
        value, other_value = listing.offered.attribute(name), other.offered.attribute(name)
        label = "nothing" if other_value is None else "the same" if other_value == value else "another"
        agreements.append(Agreement(start, end, AGREEMENTS.index(label)))
    return tuple(agreements)


def training_pairs(listings: list[Listing], counts: dict[str, int]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of parts of listings, and pairs of whole ones, most of which are hard to tell apart.

    Args:
        listings: a made catalogue.
        counts: how many pairs of whole listings, of their heads (what is offered) and of their values there should be.
            Parts are short, so that many of them are learned from in little time.
    """
    chance = random.Random(SEED)
    whole = _pairs(listings, SHARES, chance, counts["whole"])
    heads = _pairs(_parts(listings, of_head=True), {"item": 0.2, "family": 0.5, "alike": 0.3}, chance, counts["heads"])
    values = _pairs(_parts(listings, of_head=False), {"model": 1.0}, chance, counts["values"])
    return [*heads, *values], whole


def _pairs(listings: list[Listing], shares: dict[str, float], chance: random.Random, count: int) -> list[Pair]:
    groups: dict[str, dict[object, list[Listing]]] = {share: defaultdict(list) for share in shares}
    for listing in listings:
        keys = _keys(listing)
        for share in shares:
            groups[share][keys[share]].append(listing)
    pairs: list[Pair] = []
    while len(pairs) < count:
        left = chance.choice(listings)
        (share,) = chance.choices(list(shares), list(shares.values()))
        right = chance.choice(groups[share][_keys(left)[share]])
        if left.text != right.text:
            pairs.append(pair_of(left, right))
    return pairs


def _parts(listings: list[Listing], of_head: bool) -> list[Listing]:
    """The heads of listings, or their values, without the other; listings that have no such part are left out."""
    parts = []
    for listing in listings:
        spans = [span for span in listing.spans if (span.attribute in HEAD) == of_head]
        if spans:
            start, end = min(span.start for span in spans), max(span.end for span in spans)
            moved = tuple(span._replace(start=span.start - start, end=span.end - start) for span in spans)
            parts.append(listing._replace(text=listing.text[start:end], spans=moved))
    return parts


def _keys(listing: Listing) -> dict[str, object]:
    """What a listing has in common with the others of each group."""
    offered = listing.offered
    return {
        "item": listing.item,
        "model": (offered.family, offered.code),
        "family": offered.family,
        "alike": (offered.product["names"][0], offered.sold_for_it, offered.values),
        "any": None,
    }
