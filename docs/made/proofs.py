"""The tables of docs/guides/neuron-models.md: what was proven for the Neuron engines without a device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.made.supported import COLUMNS
from docs.made.tables import table
from marina.engines.neuroncores.claims import NEURON, NEURONX

PACKED = ", packed"  # as `tests.proofs.cases` names tasks
COMMON = 0.6  # the share of architectures from which on an operator is not listed for each
EMBEDDING = "aten::embedding"  # neuron-cc leaves it to the CPU by choice


def lowering_table(stored: Path) -> str:
    """Which models PyTorch/XLA lowers, and under the table why others are not."""
    document = json.loads(stored.read_text(encoding="utf-8"))
    return _page(document, lambda what: what.partition(":")[0], _lowering_reason)


def graphs_table(stored: Path) -> str:
    """What the lowered graphs consist of: operators that not every architecture has, limits, and what is not fixed."""
    graphs: Mapping[str, Mapping[str, list[str]]] = json.loads(stored.read_text(encoding="utf-8"))["graphs"]
    lowered = [graph for graph in graphs.values() if graph["operators"]]
    common = {name for graph in lowered for name in graph["operators"] if _share(lowered, name) >= COMMON}
    rows = [
        (
            f"`{name}`",
            ", ".join(f"`{operator}`" for operator in graph["operators"] if operator not in common),
            "; ".join(graph["limits"]),
            "no" if graph["not fixed"] else "yes",
        )
        for name, graph in graphs.items()
        if graph["operators"]
    ]
    head = f"Operators of most architectures: {', '.join(f'`{name}`' for name in sorted(common))}."
    return "\n".join([head, "", table(("architecture", "more operators", "documented limits", "same graph"), rows)])


def _share(graphs: Sequence[Mapping[str, list[str]]], operator: str) -> float:
    """The share of graphs that have an operator."""
    return sum(operator in graph["operators"] for graph in graphs) / len(graphs)


def operators_table(stored: Path) -> str:
    """Which models run whole on a core of Inf1 but for embeddings, and under the table what the others need."""
    document = json.loads(stored.read_text(encoding="utf-8"))
    return _page(document, _operators_mark, _operators_reason)


def claims_table() -> str:
    """What nobody has run, and the checks that would confirm it."""
    rows = [
        (f"`{engine}`", text, f"`{check}`")
        for engine, claims in (("neuron", NEURON), ("neuronx", NEURONX))
        for check, text in claims.items()
    ]
    return table(("engine", "claim", "check"), rows)


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
