"""The table of docs/models.md: which architectures were proven for which task, and what was refused."""

from __future__ import annotations

import json
from pathlib import Path

from docs.made.tables import table
from handlers.worker.tasks import TASKS

PROVEN, PACKED = "proven", "packed"  # packed stands beside the engines: rows that several texts share
# they compile what text-classification and sentence-embedding do
LIKE_OTHERS = ("reranking", "zero-shot-classification", "multi-vector-embedding")
COLUMNS = [name for name, task in TASKS.items() if not (task.scripts_only or name in LIKE_OTHERS)]
MARKS = {"both": "yes", "openvino": "openvino only", "torchscript": "torchscript only", "none": "refused"}


def supported_table(stored: Path) -> str:
    """The table, and under it why models were refused."""
    document = json.loads(stored.read_text(encoding="utf-8"))
    models: dict[str, dict[str, dict[str, str]]] = document["models"]
    rows = [
        (f"`{name}`", *(_mark(tasks[task]) if task in tasks else "" for task in COLUMNS))
        for name, tasks in models.items()
    ]
    refusals = [f"- `{name}`: {reason}" for name, tasks in models.items() if (reason := _refusal(tasks))]
    made = f"Tested with transformers {document['transformers']} and torch {document['torch']}."
    return "\n".join([made, "", table(("architecture", *COLUMNS), rows), "", "Why models were refused:", "", *refusals])


def _mark(outcome: dict[str, str]) -> str:
    engines = {engine: what for engine, what in outcome.items() if engine != PACKED}
    proven = [engine for engine, what in engines.items() if what == PROVEN]
    mark = MARKS["both" if len(proven) == len(engines) else proven[0] if proven else "none"]
    return f"{mark}, packed" if outcome.get(PACKED) == PROVEN else mark


def _refusal(tasks: dict[str, dict[str, str]]) -> str | None:
    """The first reason that an architecture was refused with; None where every task was proven."""
    reasons = [
        what for outcome in tasks.values() for name, what in outcome.items() if what != PROVEN and name != PACKED
    ]
    return reasons[0] if reasons else None
