"""Writes all reports of a result into its folder, and shows the tables."""

from __future__ import annotations

from pathlib import Path

from marina.bench.report.csv_file import csv_of
from marina.bench.report.layout import csv_of_table, layout_of, markdown_of
from marina.bench.report.page import page_of
from marina.bench.report.pictures import pictures_of
from marina.bench.report.table import inside_lines
from marina.bench.result import Result, write_result
from marina.console import print_table, relative, say


def write_reports(result: Result, folder: Path) -> None:
    """result.json first, then report.html, report.md, result.csv, each table as CSV, and the pictures."""
    write_result(result, folder)
    layout, pictures = layout_of(result), pictures_of(result)
    (folder / "report.html").write_text(page_of(result, layout, pictures), encoding="utf-8")
    (folder / "report.md").write_text(markdown_of(layout), encoding="utf-8")
    (folder / "result.csv").write_text(csv_of(result), encoding="utf-8")
    for place, (_, table) in enumerate(layout.tables):
        (folder / f"table-{place + 1}.csv").write_text(csv_of_table(table), encoding="utf-8")
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(picture)


def show(result: Result, folder: Path) -> None:
    """Print the tables, what must be known beside them, and where the rest is."""
    layout = layout_of(result)
    # the windows and the server's own account of many entries are for the page
    for heading, table in layout.tables if result.kind == "table-search" else layout.tables[:1]:
        if heading:
            say(heading)
        print_table(table.columns, table.rows, numbers=table.numbers)
    for line in [*(inside_lines(result) if len(result.entries) == 1 else []), *layout.notes]:
        say(line)
    say(f"report: {relative(folder / 'report.html')}; report.md, result.csv and result.json are beside it")
