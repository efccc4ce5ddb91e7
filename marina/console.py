"""What a person sees: progress while work goes on, tables and JSON when it is done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import progress as bars
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# what is being done, steps done, steps in all
Progress = Callable[[str, int, int], None]
WIDE = 200  # columns, where no terminal says how many there are
out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False)


def say(line: str) -> None:
    """Print one line, as it is and unbroken, on standard output."""
    out.print(line, markup=False, soft_wrap=True)


def relative(path: Path) -> str:
    """A path as seen from the current folder, where it lies in it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def print_json(document: Any) -> None:
    """Print a document for programs on standard output."""
    print(json.dumps(document, indent=1, ensure_ascii=False))


def print_table(columns: list[str], rows: list[list[str]], numbers: int = 0) -> None:
    """Print a table; the last `numbers` columns are aligned to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position >= len(columns) - numbers else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(table)


def print_answer(answer: Any) -> None:
    """Print a model's answer: objects as tables, an embedding by its size and first numbers."""
    if isinstance(answer, list) and answer and isinstance(answer[0], float):
        start = ", ".join(f"{value:.4f}" for value in answer[:6])
        say(f"[{start}, ...] ({len(answer)} numbers)")
    elif isinstance(answer, dict) and all(isinstance(value, list) for value in answer.values()):
        for head, ranking in answer.items():
            say(f"{head}:")
            print_answer(ranking)
    else:
        rows = answer if isinstance(answer, list) else [answer]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        shown = rows[:5] if columns == ["label", "score"] else rows
        print_table(columns, [[_cell(row.get(name)) for name in columns] for row in shown])


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def print_error(message: str) -> None:
    """Print one line on standard error."""
    err.print("error:", style="bold red", end=" ")
    err.print(message, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """A bar on standard error; gives a function to call with what is being done, steps done, and steps in all.

    Where nobody looks, as in a log, nothing is drawn.
    """
    columns = (
        bars.TextColumn("{task.fields[label]}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=None, label=label)

        def show(what: str, done: int, steps: int) -> None:
            progress.update(task, description=what, completed=done, total=steps)

        yield show


@contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being waited for; gives a function to change it."""
    with err.status("") as status:
        yield status.update
