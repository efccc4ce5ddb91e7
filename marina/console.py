"""Terminal output: progress while a command runs, tables and JSON when it is done."""

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

# arguments: current step, number of steps done, total number of steps
Progress = Callable[[str, int, int], None]
NO_TERMINAL_WIDTH = 200  # columns
MAX_ROWS = 20  # of an answer
out = Console(highlight=False, width=None if sys.stdout.isatty() else NO_TERMINAL_WIDTH)
err = Console(stderr=True, highlight=False)
_active_bars: list[bars.Progress] = []


def say(line: str) -> None:
    """Print one line on standard output, without markup or line wrapping.

    A progress bar on the same terminal stays below the line, which only its own console can see to.
    """
    console = err if _active_bars and out.is_terminal else out
    console.print(line, markup=False, emoji=False, soft_wrap=True)


def relative(path: Path) -> str:
    """A path relative to the current folder if it is inside that folder, else the path unchanged."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def print_json(document: Any) -> None:
    """Print a document as JSON on standard output."""
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
    """Print a model's answer: objects as tables, an embedding as its first numbers and its size."""
    if isinstance(answer, str):
        say(answer)
    elif answer == []:
        say("nothing")
    elif isinstance(answer, list) and answer and isinstance(answer[0], float | int):
        start = ", ".join(map(_cell, answer[:6]))
        say(f"[{start}, ...] ({len(answer)} numbers)")
    elif isinstance(answer, list) and answer and isinstance(answer[0], list):
        print_answer(answer[0])
        say(f"... {len(answer)} vectors")
    elif isinstance(answer, float):
        say(f"{answer:.4f}")
    elif isinstance(answer, dict) and all(isinstance(value, list) for value in answer.values()):
        for head, ranking in answer.items():
            say(f"{head}:")
            print_answer(ranking)
    else:
        rows = answer if isinstance(answer, list) else [answer]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        first_rows = rows[:5] if columns == ["label", "score"] else rows[:MAX_ROWS]
        print_table(columns, [[_cell(row.get(name)) for name in columns] for row in first_rows])
        if columns != ["label", "score"] and len(rows) > MAX_ROWS:
            say(f"... {len(rows)} rows; --json prints all")


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def print_error(message: str) -> None:
    """Print an error message as one line on standard error."""
    err.print("error:", style="bold red", end=" ")
    err.print(message, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """A progress bar on standard error; yields the function to report progress with.

    Nothing is drawn if standard error is not a terminal, for example in a log.
    """
    columns = (
        bars.TextColumn("{task.fields[label]}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("starting", total=None, label=label)

        def show(step: str, done: int, steps: int) -> None:
            progress.update(task, description=step, completed=done, total=steps)

        _active_bars.append(progress)
        try:
            yield show
        finally:
            _active_bars.remove(progress)


@contextmanager
def spinner() -> Iterator[Callable[[str], None]]:
    """A status line on standard error; yields a function that changes its text."""
    with err.status("") as status:
        yield status.update
