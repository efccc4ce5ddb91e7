"""Text classification of one text or a pair: the answer lists every label with its score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from handlers.worker.adapter import Handler
from handlers.worker.artifact import Artifact
from handlers.worker.calls import Outputs
from handlers.worker.parsing import Json


class TextClassification(Handler):
    """Scores are the logits after the artifact's activation, the best label first."""

    task = "text-classification"
    pairs = True

    def answer(self, outputs: Outputs, artifact: Artifact) -> Json:
        scores = activate(outputs[0].astype(np.float64), artifact.activation)
        order = np.argsort(-scores, kind="stable")
        return [{"label": artifact.labels[i], "score": float(scores[i])} for i in order]


def activate(logits: npt.NDArray[np.float64], activation: str) -> npt.NDArray[np.float64]:
    """Turn the logits of one row into scores: "softmax", "sigmoid" or "none"."""
    if activation == "softmax":
        exponentials = np.exp(logits - logits.max())
        return np.asarray(exponentials / exponentials.sum())
    if activation == "sigmoid":
        return np.asarray(1.0 / (1.0 + np.exp(-logits)))
    return logits
