"""The entry file of question-answering archives: the TorchServe handler for this task."""

from __future__ import annotations

from types import MappingProxyType

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.question_answering import TASK


class QuestionAnswering(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = MappingProxyType({TASK.name: TASK})
