"""Writes all reports of a result into its folder, and prints the tables."""

from __future__ import annotations

from pathlib import Path

from marina.bench.report.csv_file import csv_of
from marina.bench.report.page import page_of
from marina.bench.report.results import Result, write_result
from marina.bench.report.standard import server_lines
from marina.bench.report.table import TableLayout, csv_of_table, markdown_of
from marina.console import print_table, relative, say


def write_reports(result: Result, layout: TableLayout, pictures: dict[str, bytes], folder: Path) -> None:
    """Write result.json, then report.html, report.md, result.csv, each table as CSV, and the pictures as SVG."""
    write_result(result, folder)
    (folder / "report.html").write_text(page_of(result, layout, pictures), encoding="utf-8")
    (folder / "report.md").write_text(markdown_of(layout), encoding="utf-8")
    (folder / "result.csv").write_text(csv_of(result), encoding="utf-8")
    for number, table in enumerate(layout.tables, start=1):
        (folder / f"table-{number}.csv").write_text(csv_of_table(table), encoding="utf-8")
    for name, picture in pictures.items():
        (folder / f"{name}.svg").write_bytes(picture)


def show(result: Result, layout: TableLayout, folder: Path) -> None:
    """Print the conclusion, the tables, their notes, and where to find the rest."""
    if layout.conclusion:
        say(layout.conclusion)
    # the tables of windows and of the server's metrics are shown only on the page
    for table in layout.tables if result.kind == "table-search" else layout.tables[:1]:
        if table.heading:
            say(table.heading)
        print_table(table.columns, table.rows, numbers=table.numeric_columns)
    for line in [*(server_lines(result) if len(result.entries) == 1 else []), *layout.notes]:
        say(line)
    say(f"report: {relative(folder / 'report.html')}; report.md, result.csv and result.json are beside it")
