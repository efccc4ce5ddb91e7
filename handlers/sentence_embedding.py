"""Sentence embeddings: the answer for a text is its embedding, a list of floats."""

from __future__ import annotations

from handlers.worker.adapter import Handler
from handlers.worker.artifact import Artifact
from handlers.worker.calls import Outputs
from handlers.worker.parsing import Json


class SentenceEmbedding(Handler):
    """Pooling and normalisation are part of the graph; its output is the answer."""

    task = "sentence-embedding"
    pairs = False

    def answer(self, outputs: Outputs, artifact: Artifact) -> Json:
        return outputs[0].tolist()
