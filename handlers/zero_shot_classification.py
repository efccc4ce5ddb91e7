"""The entry file of zero-shot-classification archives: the TorchServe handler for this task."""

from __future__ import annotations

from types import MappingProxyType

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.zero_shot_classification import TASK


class ZeroShotClassification(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = MappingProxyType({TASK.name: TASK})
