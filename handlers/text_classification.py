"""The entry file of archives that classify texts: the task, given to TorchServe."""

from __future__ import annotations

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.text_classification import TASK


class TextClassification(TorchServeHandler):
    """TorchServe makes one for each worker."""

    task = TASK
