"""Zero-shot classification: a head that says whether one text entails another (NLI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from handlers.worker.archive.signature import label_text
from handlers.worker.tasks.zero_shot_classification import ENTAILMENT, entailment_of
from handlers.worker.values import Json
from marina.compiler.hugging_face.architecture import names_head
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import read_configuration
from marina.compiler.reference import TransformersReference
from marina.compiler.tasks.base import TaskExporter
from marina.compiler.tasks.export import export_classifier
from marina.compiler.tasks.outputs import OutputRule
from marina.compiler.tasks.text_classification import HEAD, agree
from marina.engines.model import ExportedModel
from marina.errors import SourceError


def recognises(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether a label of the head is entailment."""
    labels = list((config.get("id2label") or {}).values())
    return names_head(HEAD)(folder, config) and entailment_of(labels) is not None


def check_labels(labels: Sequence[Json]) -> str | None:
    """Why these classes are not those of entailment; None if they are."""
    if entailment_of(labels) is not None:
        return None
    return f"no label begins with {ENTAILMENT}: {', '.join(map(label_text, labels))}"


def export(source: HuggingFaceFolder, attention: str | None) -> ExportedModel:
    """Export the head; SourceError if no label of it is entailment."""
    reason = check_labels(tuple(read_configuration(source).id2label.values()))
    if reason:
        raise SourceError(
            f"{source.title}: {reason}",
            "use a model that was trained for natural language inference (NLI), or the task text-classification",
        )
    return export_classifier(source, HEAD, attention, None)


EXPORTER = TaskExporter(
    export,
    partial(TransformersReference, head=HEAD),
    agree,
    OutputRule(("logits",), labels=True, check_labels=check_labels),
    recognises,
    HEAD,
)
