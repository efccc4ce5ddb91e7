"""Writes all reports of a result into its folder, and shows the table."""

from __future__ import annotations

from pathlib import Path

from marina.bench.report.csv_file import csv_of
from marina.bench.report.page import standard_page
from marina.bench.report.pictures import pictures_of
from marina.bench.report.table import inside_lines, notes_of, table_of
from marina.bench.result import Result, write_result
from marina.console import print_table, relative, say


def write_reports(result: Result, folder: Path) -> None:
    """result.json first, then result.csv, report.html and the pictures."""
    write_result(result, folder)
    (folder / "result.csv").write_text(csv_of(result), encoding="utf-8")
    (folder / "report.html").write_text(standard_page(result), encoding="utf-8")
    for name, picture in pictures_of(result).items():
        (folder / f"{name}.png").write_bytes(picture)


def show(result: Result, folder: Path) -> None:
    """Print the table, what must be known beside it, and where the rest is."""
    table = table_of(result)
    print_table(table.columns, table.rows, numbers=table.numbers)
    if len(result.entries) == 1:
        for line in inside_lines(result):
            say(line)
    for note in notes_of(result):
        say(note)
    say(f"report: {relative(folder / 'report.html')}, result.csv and result.json beside it")
