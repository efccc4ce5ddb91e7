"""The entry file of sentence-embedding archives: the TorchServe handler for this task."""

from __future__ import annotations

from types import MappingProxyType

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.sentence_embedding import TASK


class SentenceEmbedding(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = MappingProxyType({TASK.name: TASK})
