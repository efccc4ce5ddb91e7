"""Figures published by others, for rows and columns beside ours; published.yaml names every source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from marina.bench.report.table import Table

FILE = Path(__file__).parent / "published.yaml"


class Published(NamedTuple):
    """The figures of one source.

    Attributes:
        source: who published them, where and when.
        claim: its headline claim.
        hardware: what was measured, and on which hardware.
        columns, rows: the figures, as published.
    """

    source: str
    claim: str
    hardware: str
    columns: list[str]
    rows: list[list[Any]]


@cache
def published(table: str) -> Published:
    """The published figures for a table, given with or without the prefix "table-"."""
    return Published(**yaml.safe_load(FILE.read_text(encoding="utf-8"))[table.removeprefix("table-")])


def published_table(table: str, measured_here: Mapping[str, str]) -> Table:
    """Every published figure, with the figure measured here beside it if `measured_here` has one of that name."""
    figures = published(table)
    unknown = set(measured_here) - {row[0] for row in figures.rows}
    if unknown:
        raise KeyError(f"{table} has published no {', '.join(unknown)}")
    rows = [[str(name), str(value), measured_here.get(name, "")] for name, value in figures.rows]
    return Table([*figures.columns, "here"], rows, 2, "Published figures")


def source_note(table: str) -> str:
    """The source of the published figures, on one line."""
    figures = published(table)
    return f"published: {figures.claim} ({figures.hardware}). Source: {figures.source}. Not measured here"
