"""The compiler's half of each task, one file a task; the half that answers requests is in `handlers/worker/tasks/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from marina.compiler.reference import Reference
from marina.compiler.source import encoder_folder
from marina.compiler.source.architecture import check_architecture
from marina.compiler.tasks import question_answering, sentence_embedding, text_classification, token_classification
from marina.compiler.tasks.base import TaskExporter
from marina.compiler.tasks.export import attention_of
from marina.engines.model import ExportedModel
from marina.spec import Spec

EXPORTERS: Mapping[str, TaskExporter] = {
    "sentence-embedding": sentence_embedding.EXPORTER,
    "text-classification": text_classification.EXPORTER,
    "token-classification": token_classification.EXPORTER,
    "question-answering": question_answering.EXPORTER,
}


def export_model(spec: Spec, folder: Path) -> ExportedModel:
    """Load a model and its tokenizer for the spec's task, in float32.

    Raises:
        SourceError: the folder does not hold what the task needs.
    """
    task = EXPORTERS[spec.task]
    if task.head and not spec.heads:
        check_architecture(spec, folder, {name: one.head for name, one in EXPORTERS.items() if one.head})
    return task.export(spec, folder, attention_of(spec, encoder_folder(folder)))


def open_reference(spec: Spec, folder: Path) -> Reference:
    """Load the model of a spec with its own library; SourceError where that cannot be."""
    return EXPORTERS[spec.task].open_reference(spec, folder)
