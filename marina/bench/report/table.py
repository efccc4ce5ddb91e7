"""Tables of text cells: the format of cells, and whole tables as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from typing import Any, NamedTuple

from marina.bench.report.statistics import Interval

MAX_CELL_LENGTH = 40  # characters of a cell that describes a configuration


class Table(NamedTuple):
    """Column names, rows of cells, the number of trailing columns that are numeric, and a heading or ""."""

    columns: list[str]
    rows: list[list[str]]
    numeric_columns: int
    heading: str = ""


class TableLayout(NamedTuple):
    """A result for display: its tables, notes on them (one line each), and its conclusion in a few sentences."""

    tables: list[Table]
    notes: list[str]
    conclusion: str = ""


def markdown_of(layout: TableLayout) -> str:
    """Conclusion, tables and notes as Markdown."""
    parts = [f"**{layout.conclusion}**"] if layout.conclusion else []
    for table in layout.tables:
        marks = ["---"] * (len(table.columns) - table.numeric_columns) + ["---:"] * table.numeric_columns
        lines = [f"| {' | '.join(row)} |" for row in (table.columns, marks, *table.rows)]
        parts.append("\n".join([*([f"{table.heading}:", ""] if table.heading else []), *lines]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in layout.notes)]) + "\n"


def csv_of_table(table: Table) -> str:
    """One table as CSV, with the cells as displayed."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    return file.getvalue()


def number(value: float | None, digits: int | None = None) -> str:
    """A number with about three significant digits, or with `digits` decimal places; "" for None."""
    if value is None:
        return ""
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def spread(interval: Interval | None) -> str:
    """A median with its interval."""
    if interval is None:
        return ""
    return f"{number(interval.median)} [{number(interval.low)}-{number(interval.high)}]"


def cell(value: Any) -> str:
    """The cell for a field of a configuration."""
    if isinstance(value, float):
        return f"{value:g}"
    text = "" if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)
    return text if len(text) <= MAX_CELL_LENGTH else f"{text[: MAX_CELL_LENGTH - 1]}…"
