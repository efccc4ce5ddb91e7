"""Sentence embeddings: the answer for a text is its embedding, a list of floats."""

from __future__ import annotations

from collections.abc import Mapping

from handlers.worker.adapter import Handler
from handlers.worker.artifact import Artifact
from handlers.worker.parameters import Parameter
from handlers.worker.task import Example, Fields, Json
from handlers.worker.tokenizing import RowTokenizer


class SentenceEmbedding(Handler):
    """Pooling and normalisation are part of the graph; its output is the answer."""

    task = "sentence-embedding"
    fields = Fields("text")
    parameters: Mapping[str, Parameter] = {}

    def answer(self, example: Example, artifact: Artifact, tokenizer: RowTokenizer) -> Json:
        return example.outputs[0][0].tolist()
