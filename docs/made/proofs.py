"""The tables of docs/guides/neuron-models.md: what was proven for the Neuron engines without a device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docs.made.supported import COLUMNS
from docs.made.tables import table

PACKED = ", packed"  # as `tests.proofs.cases` names tasks
EMBEDDING = "aten::embedding"  # neuron-cc leaves it to the CPU by choice


def lowering_table(stored: Path) -> str:
    """Which models PyTorch/XLA lowers, and under the table why others are not."""
    document = json.loads(stored.read_text(encoding="utf-8"))
    return _page(document, lambda what: what.partition(":")[0], _lowering_reason)


def operators_table(stored: Path) -> str:
    """Which models run whole on a core of Inf1 but for embeddings, and under the table what the others need."""
    document = json.loads(stored.read_text(encoding="utf-8"))
    return _page(document, _operators_mark, _operators_reason)


def _page(document: dict[str, Any], mark: Callable[[Any], str], reason: Callable[[Any], str | None]) -> str:
    models: Mapping[str, Mapping[str, Any]] = document["models"]
    rows = [
        (f"`{name}`", *(_cell(tasks, task, mark) if task in tasks else "" for task in COLUMNS))
        for name, tasks in models.items()
    ]
    reasons = [
        f"- `{name}`: {found}"
        for name, tasks in models.items()
        if (found := next(filter(None, (_told(task, reason(what)) for task, what in tasks.items())), None))
    ]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return "\n".join([f"Made with {versions}.", "", table(("architecture", *COLUMNS), rows), "", *reasons])


def _cell(tasks: Mapping[str, Any], task: str, mark: Callable[[Any], str]) -> str:
    """The mark of a task, and whether packed rows have the same."""
    own, packed = mark(tasks[task]), tasks.get(task + PACKED)
    return own if packed is None or mark(packed) != own else own + PACKED


def _told(task: str, reason: str | None) -> str | None:
    return f"packed rows: {reason}" if reason and task.endswith(PACKED) else reason


def _lowering_reason(what: str) -> str | None:
    return what if ":" in what else None


def _operators_mark(what: Mapping[str, Any]) -> str:
    if "refused" in what:
        return "refused"
    others = sum(count for name, count in what["doubtful"].items() if name != EMBEDDING)
    return f"{others} doubtful of {what['operators']}" if others else "whole"


def _operators_reason(what: Mapping[str, Any]) -> str | None:
    if "refused" in what:
        return f"refused: {what['refused']}"
    others = [f"{count} x {name}" for name, count in what["doubtful"].items() if name != EMBEDDING]
    return f"doubtful: {', '.join(others)}" if others else None
