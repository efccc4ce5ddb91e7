"""Blocking: of all pairs of listings, those that are compared.

Listings that name the same model number are compared, however differently they are written; the remaining pairs are
the nearest by their embeddings.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ROWS = 1000  # listings that are compared with all others at once
MODEL_NUMBER = re.compile(r"\b([a-z]{1,3})[- ]?(\d{2,4})\b")
MAX_SAME_NUMBER = 50  # listings with a number that more of them have say little by it

Pairs = npt.NDArray[np.int64]


def block(embeddings: npt.NDArray[np.float32], texts: Sequence[str], pairs: int) -> Pairs:
    """About this many pairs of listings.

    Args:
        embeddings: of shape (listings, width), of unit length.
        texts: of the listings.
        pairs: how many pairs are wanted.

    Returns:
        Pairs of listings of shape (pairs, 2), the lower number first, each pair once.
    """
    candidates = np.concatenate([same_number_pairs(texts), nearest_pairs(embeddings, pairs)])
    _, first = np.unique(candidates, axis=0, return_index=True)
    return candidates[np.sort(first)[:pairs]]


def same_number_pairs(texts: Sequence[str]) -> Pairs:
    """The pairs of listings that name the same model number, however it is written: AB-120, ab 120 or AB120."""
    listings: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for letters, digits in set(MODEL_NUMBER.findall(text.lower())):
            listings[letters + digits].append(place)
    pairs = {
        pair
        for places in listings.values()
        if len(places) <= MAX_SAME_NUMBER
        for pair in itertools.combinations(places, 2)
    }
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def nearest_pairs(embeddings: npt.NDArray[np.float32], pairs: int) -> Pairs:
    """About this many pairs of listings: each with its nearest ones, the nearest pairs first."""
    count = len(embeddings)
    # most pairs are found from both sides
    neighbours = min(count - 1, max(1, 2 * pairs // count + 1))
    candidates = []
    for start in range(0, count, ROWS):
        cosines = embeddings[start : start + ROWS] @ embeddings.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1
        nearest = np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours]
        listing = np.repeat(start + rows, neighbours)
        candidates.append(np.stack([listing, nearest.ravel(), np.take_along_axis(cosines, nearest, 1).ravel()], axis=1))
    scored = np.concatenate(candidates)
    scored = scored[np.argsort(-scored[:, 2], kind="stable")]
    ordered = np.sort(scored[:, :2].astype(np.int64), axis=1)
    _, first = np.unique(ordered, axis=0, return_index=True)
    return ordered[np.sort(first)[:pairs]]
