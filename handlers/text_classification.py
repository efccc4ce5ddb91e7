"""The entry file of text-classification archives: the TorchServe handler for this task."""

from __future__ import annotations

from types import MappingProxyType

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.text_classification import TASK


class TextClassification(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = MappingProxyType({TASK.name: TASK})
