"""The entry file of sparse-embedding archives: the TorchServe handler for this task."""

from __future__ import annotations

from types import MappingProxyType

from handlers.worker.hosts.torchserve import TorchServeHandler
from handlers.worker.tasks.sparse_embedding import TASK


class SparseEmbedding(TorchServeHandler):
    """TorchServe creates one handler per worker."""

    tasks = MappingProxyType({TASK.name: TASK})
