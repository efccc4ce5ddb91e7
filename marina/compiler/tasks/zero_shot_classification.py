"""Zero-shot classification: a head that says whether one text entails another (NLI)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handlers.worker.signature import label_text
from handlers.worker.tasks.zero_shot_classification import entailment_of
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.loading import read_configuration
from marina.compiler.reference import Reference, TransformersReference
from marina.compiler.tasks.base import TaskExporter
from marina.compiler.tasks.export import export_classifier
from marina.compiler.tasks.outputs import OutputRule
from marina.compiler.tasks.text_classification import HEAD, agree
from marina.engines.model import ExportedModel
from marina.errors import SourceError
from marina.spec import Spec

ENTAILMENT = "entail"  # how the label begins, as transformers' pipeline looks for it


def recognises(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether a label of the head is entailment."""
    labels = config.get("id2label") or {}
    return names_head(HEAD)(folder, config) and any(
        str(label).lower().startswith(ENTAILMENT) for label in labels.values()
    )


def export(spec: Spec, folder: Path, attention: str | None) -> ExportedModel:
    """Export the head; SourceError if no label of it is entailment."""
    labels = tuple(read_configuration(spec, folder).id2label.values())
    if len(labels) < 2 or not label_text(labels[entailment_of(labels)]).lower().startswith(ENTAILMENT):
        named = ", ".join(map(label_text, labels))
        raise SourceError(
            f"{spec.name}: no label of source {spec.source} begins with {ENTAILMENT}: {named}",
            "use a model that was trained for natural language inference (NLI), or the task text-classification",
        )
    return export_classifier(spec, folder, HEAD, attention, None)


def open_reference(spec: Spec, folder: Path) -> Reference:
    """The model, run by its own library."""
    return TransformersReference(spec, folder, HEAD)


EXPORTER = TaskExporter(export, open_reference, agree, OutputRule(("logits",), labels=True), recognises, HEAD)
