"""Turns logits into scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def activate(logits: npt.NDArray[Any], activation: str) -> npt.NDArray[np.float64]:
    """Turn logits into scores along the last axis: "softmax", "sigmoid" or "none"."""
    values = logits.astype(np.float64)
    if activation == "softmax":
        exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))
    if activation == "sigmoid":
        # equal to 1 / (1 + exp(-values)), but does not overflow
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))
    return values
