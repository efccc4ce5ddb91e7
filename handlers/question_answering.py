"""The entry file of archives that answer questions: the task, given to TorchServe."""

from __future__ import annotations

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.question_answering import TASK


class QuestionAnswering(TorchServeHandler):
    """TorchServe makes one for each worker."""

    task = TASK
