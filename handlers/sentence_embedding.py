"""The entry file of archives that embed sentences: the task, given to TorchServe."""

from __future__ import annotations

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.sentence_embedding import TASK


class SentenceEmbedding(TorchServeHandler):
    """TorchServe makes one for each worker."""

    task = TASK
