"""The tables by name: how each is measured, and how its result is laid out and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from marina.bench.report.conclusion import conclude
from marina.bench.report.pictures import pictures_of
from marina.bench.report.pricing import Price
from marina.bench.report.results import Result
from marina.bench.report.standard import failures_of, standard_layout
from marina.bench.report.table import TableLayout
from marina.bench.server.benchmark_server import benchmark_server
from marina.bench.tables import bundle, latency
from marina.bench.tables.job import TableJob
from marina.console import Progress
from marina.errors import MarinaError
from marina.project import Project


@dataclass(frozen=True)
class TableKind:
    """One table.

    Attributes:
        measure: measures the whole table.
        layout: lays out a result.
        draw: draws a result, as SVG files by name.
    """

    measure: Callable[[TableJob], Result]
    layout: Callable[[Result], TableLayout]
    draw: Callable[[Result], dict[str, bytes]] = pictures_of


Tables = Mapping[str, TableKind]
TABLES: Tables = {module.KIND: TableKind(module.measure, module.layout) for module in (bundle, latency)}


def table_kind(name: str, tables: Tables) -> TableKind:
    """A table by name, with or without the prefix "table-"; MarinaError if there is none."""
    kind = tables.get(f"table-{name.removeprefix('table-')}")
    if kind is None:
        names = ", ".join(table_name.removeprefix("table-") for table_name in tables)
        raise MarinaError(f"there is no table {name}; there are: {names}")
    return kind


def measure_table(
    project: Project, kind: TableKind, name: str | None, engine: str | None, price: Price | None, progress: Progress
) -> Result:
    """Measure a table, for a given model or for the table's own models."""
    with benchmark_server(project, progress) as server:
        return kind.measure(TableJob(server, project, name, engine, price, progress))


def layout_of(result: Result, tables: Tables = TABLES) -> TableLayout:
    """The tables and notes of any result: the layout of its kind of table, or the standard layout."""
    if result.kind.startswith("table-"):
        layout = table_kind(result.kind, tables).layout(result)
    else:
        layout = standard_layout(result)._replace(conclusion=conclude(result))
    return layout._replace(notes=layout.notes + failures_of(result))


def draw(result: Result, tables: Tables = TABLES) -> dict[str, bytes]:
    """The pictures of any result, SVG files by name."""
    return table_kind(result.kind, tables).draw(result) if result.kind.startswith("table-") else pictures_of(result)
