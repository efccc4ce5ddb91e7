"""The tables of docs/guides/neuron-models.md: what was proven for the Neuron engines without a device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docs.made.supported import COLUMNS
from docs.made.tables import table

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
        (f"`{name}`", *(mark(tasks[task]) if task in tasks else "" for task in COLUMNS))
        for name, tasks in models.items()
    ]
    reasons = [
        f"- `{name}`: {found}"
        for name, tasks in models.items()
        if (found := next(filter(None, map(reason, tasks.values())), None))
    ]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    return "\n".join([f"Made with {versions}.", "", table(("architecture", *COLUMNS), rows), "", *reasons])


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
