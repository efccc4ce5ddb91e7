"""Which tables and notes a result is told with: those of its own kind, or the standard ones."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

from marina.bench.report.table import Table, inside_of, notes_of, table_of
from marina.bench.result import Result

INSIDE = "In the server: mean time of a request, shares of the worker's time, what was computed"


class Layout(NamedTuple):
    """Tables with their headings, and what a reader must know, a line each."""

    tables: list[tuple[str, Table]]
    notes: list[str]


def layout_of(result: Result) -> Layout:
    """The layout of a result."""
    failures = [f"left out: {failure}" for failure in result.more.get("failures", ())]
    if result.kind.startswith("table-"):
        from marina.bench.tables import table_kind

        kind = table_kind(result.kind)
        return Layout(kind.tables(result), kind.notes(result) + failures)
    inside = inside_of(result)
    tables = [("", table_of(result)), *([(INSIDE, inside)] if inside else [])]
    return Layout(tables, notes_of(result) + failures)


def markdown_of(layout: Layout) -> str:
    """Tables and notes as Markdown."""
    parts = []
    for heading, table in layout.tables:
        marks = ["---"] * (len(table.columns) - table.numbers) + ["---:"] * table.numbers
        lines = [f"| {' | '.join(row)} |" for row in (table.columns, marks, *table.rows)]
        parts.append("\n".join([*([f"{heading}:", ""] if heading else []), *lines]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in layout.notes)]) + "\n"


def csv_of_table(table: Table) -> str:
    """One table as it is shown."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    return file.getvalue()
