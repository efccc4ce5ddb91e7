"""The entry file of bundles: the TorchServe handler for several models of any task."""

from __future__ import annotations

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks import TASKS


class Bundle(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = TASKS
