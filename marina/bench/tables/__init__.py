"""Ready-made tables, after those that the field has published: `marina bench --table NAME`.

nlp_12x.py    AWS: BERT-base, batch 1 and 6, one core a model and all cores a model, with costs
ava.py        Autodesk: an intent model at batch 1, throughput and latency over time
search.py     Amazon Search: p99 at rising load until 10 ms is broken, and duplicates in bulk
darwinbox.py  Darwinbox: time for a resume, eager and compiled, one by one and in mini-batches
ways.py       measures the rows of a table in turn
published.py  what those published, for the columns beside ours
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marina.bench.costs import Price
from marina.bench.report.table import Table
from marina.bench.result import Result
from marina.bench.stage import Stage
from marina.bench.tables import ava, darwinbox, nlp_12x, search
from marina.console import Progress
from marina.errors import MarinaError
from marina.project import Project


@dataclass(frozen=True)
class TableKind:
    """One table: how it is measured, and how its result is laid out."""

    measure: Callable[[Stage, Project, str | None, str | None, Price | None, Progress], Result]
    tables: Callable[[Result], list[tuple[str, Table]]]
    notes: Callable[[Result], list[str]]


TABLES = {
    module.KIND: TableKind(module.measure, module.tables, module.notes) for module in (nlp_12x, ava, search, darwinbox)
}


def table_kind(name: str) -> TableKind:
    """A table by its name, with or without "table-" before it; MarinaError if there is none."""
    kind = TABLES.get(f"table-{name.removeprefix('table-')}")
    if kind is None:
        names = ", ".join(known.removeprefix("table-") for known in TABLES)
        raise MarinaError(f"there is no table {name}; there are: {names}")
    return kind
