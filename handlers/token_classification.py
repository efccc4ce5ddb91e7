"""The entry file of archives that classify tokens: the task, given to TorchServe."""

from __future__ import annotations

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.token_classification import TASK


class TokenClassification(TorchServeHandler):
    """TorchServe makes one for each worker."""

    task = TASK
