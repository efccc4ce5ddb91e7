"""Tasks define what a model answers. One file per task; each defines its `TASK`.

Enters: the fields of instances, and the outputs of their rows. Leaves: answers, and their columns in bulk. Not known
here: engines, protocols and hosts.
"""

from __future__ import annotations

from handlers.worker.tasks import (
    multi_vector_embedding,
    question_answering,
    reranking,
    sentence_embedding,
    sparse_embedding,
    tensors,
    text_classification,
    token_classification,
    zero_shot_classification,
)
from handlers.worker.tasks.base import Task

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK
    for module in (
        sentence_embedding,
        sparse_embedding,
        multi_vector_embedding,
        text_classification,
        zero_shot_classification,
        reranking,
        token_classification,
        question_answering,
        tensors,
    )
}
