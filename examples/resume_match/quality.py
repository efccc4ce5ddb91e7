"""How well resumes are ordered for a job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOP = 10


def ndcg(relevances: Sequence[float], order: Sequence[int]) -> float:
    """The normalised discounted cumulative gain of the first `TOP` places: 1 for the best order.

    Args:
        relevances: of every resume.
        order: the places of resumes in `relevances`, best first.
    """
    discounts = 1 / np.log2(np.arange(2, TOP + 2))
    best, first = np.sort(relevances)[::-1][:TOP], np.array([relevances[place] for place in order[:TOP]])
    return float((first * discounts[: len(first)]).sum() / (best * discounts[: len(best)]).sum())
