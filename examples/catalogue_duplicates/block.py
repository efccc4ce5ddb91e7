"""Blocking: of all pairs of listings, those that are near enough to be compared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROWS = 1000  # listings that are compared with all others at once


def nearest_pairs(embeddings: npt.NDArray[np.float32], pairs: int) -> npt.NDArray[np.int64]:
    """About this many pairs of listings: each with its nearest ones.

    Args:
        embeddings: of shape (listings, width), of unit length.
        pairs: how many pairs are wanted.

    Returns:
        Pairs of listings of shape (pairs, 2), the lower number first, each pair once.
    """
    count = len(embeddings)
    # most pairs are found from both sides
    neighbours = min(count - 1, max(1, 2 * pairs // count + 1))
    found = []
    for start in range(0, count, ROWS):
        cosines = embeddings[start : start + ROWS] @ embeddings.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1
        near = np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours]
        own = np.repeat(start + rows, neighbours)
        found.append(np.stack([own, near.ravel(), np.take_along_axis(cosines, near, 1).ravel()], axis=1))
    every = np.concatenate(found)
    every = every[np.argsort(-every[:, 2], kind="stable")]
    ordered = np.sort(every[:, :2].astype(np.int64), axis=1)
    _, first = np.unique(ordered, axis=0, return_index=True)
    return ordered[np.sort(first)[:pairs]]
