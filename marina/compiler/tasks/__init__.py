"""The compiler's part of each task, one file each; the part that answers requests is in `handlers/worker/tasks/`.

Enters: the folder of a model. Leaves: the exported model, its reference answers, and how answers are compared. Not
known here: any engine by its name, and graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marina.compiler.hugging_face.architecture import check_architecture
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.tasks import (
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
from marina.compiler.tasks.base import TaskExporter

# of tasks that recognise the same model, the first is meant
EXPORTERS: Mapping[str, TaskExporter] = {
    "reranking": reranking.EXPORTER,
    "zero-shot-classification": zero_shot_classification.EXPORTER,
    "text-classification": text_classification.EXPORTER,
    "token-classification": token_classification.EXPORTER,
    "question-answering": question_answering.EXPORTER,
    "sparse-embedding": sparse_embedding.EXPORTER,
    "multi-vector-embedding": multi_vector_embedding.EXPORTER,
    "sentence-embedding": sentence_embedding.EXPORTER,
    "tensors": tensors.EXPORTER,
}

# for each task that has one: how transformers ends the names of classes with its head
HEADS: Mapping[str, str] = {name: task.head for name, task in EXPORTERS.items() if task.head}


def recognise(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The task of a model, which its folder and its config.json show; None if they do not."""
    return next((name for name, task in EXPORTERS.items() if task.recognises(folder, config)), None)


def check_head(source: HuggingFaceFolder) -> None:
    """Refuse a model with the head of another task; heads that the spec names itself are checked when loaded."""
    if source.spec.task in HEADS and not source.spec.heads:
        check_architecture(source, HEADS)
