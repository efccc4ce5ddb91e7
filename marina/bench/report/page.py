"""report.html: one file with conclusion, tables, pictures and the machine. It loads nothing over the network."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from marina.bench.report.figures import figures_of
from marina.bench.report.results import Result
from marina.bench.report.standard import warnings_of
from marina.bench.report.table import Table, TableLayout, number

STYLE = """
:root { --ink: #1d2733; --soft: #5d6b7a; --line: #dde3ea; --blue: #1f6fb2; --paper: #fff; --back: #f4f6f9;
  --warn: #fff3d6 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--back) }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; background: var(--paper) }
th, td { padding: .3rem .75rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--soft); font-size: .85rem }
.number { text-align: right }
.scroll { overflow-x: auto }
.conclusion { font-size: 1.15rem; font-weight: 600 }
.cards { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0 }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1.1rem }
.card b { display: block; font-size: 1.6rem; color: var(--blue); font-variant-numeric: tabular-nums }
.card span { color: var(--soft) }
.warning { background: var(--warn); color: #4a3500; border-radius: .4rem; padding: .4rem .8rem; margin: .4rem 0 }
img { max-width: 100%; display: block; margin: 1rem 0; background: var(--paper); border: 1px solid var(--line);
  border-radius: .5rem; padding: .75rem; box-sizing: border-box }
ul, dd { color: var(--soft) } dt { font-weight: 600 } dd { margin: 0 0 .3rem 1rem }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf0; --soft: #9aa8b6; --line: #34404d; --blue: #6db5ee; --paper: #1b232c; --back: #12181e;
    --warn: #ffe6a8 }
}
"""


def page_of(result: Result, layout: TableLayout, pictures: dict[str, bytes]) -> str:
    """The HTML of the page, from the result's layout and pictures."""
    images = "".join(
        f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{base64.b64encode(picture).decode()}">\n'
        for name, picture in pictures.items()
    )
    tables = "".join(map(_table, layout.tables))
    conclusion = f'<p class="conclusion">{escape(layout.conclusion)}</p>\n' if layout.conclusion else ""
    warnings = warnings_of(result)
    warning_lines = "".join(f'<p class="warning">{escape(warning)}</p>\n' for warning in warnings)
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in layout.notes if note not in warnings)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(result.title)}</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(result.title)}</h1>\n{conclusion}{warning_lines}"
        f"{_cards(result)}{tables}<ul>\n{notes}</ul>\n{images}"
        f"<h2>Measured</h2>\n<dl>{_facts(result)}</dl>\n</body></html>\n"
    )


def _cards(result: Result) -> str:
    """The figures that one looks for first, if there is one entry."""
    if len(result.entries) != 1:
        return ""
    (figure,) = figures_of(result)
    values = {
        "instances per second": number(figure.throughput.median),
        "p50, ms": number(figure.latency_ms.get("p50")),
        "p99, ms": number(figure.latency_ms.get("p99")),
        "errors": str(sum(figure.errors.values())),
    }
    if figure.cost is not None:
        values["USD for a million"] = number(figure.cost, 3)
    cards = "".join(
        f'<div class="card"><b>{value}</b><span>{escape(name)}</span></div>' for name, value in values.items() if value
    )
    return f'<div class="cards">{cards}</div>\n'


def _table(table: Table) -> str:
    first_number = len(table.columns) - table.numeric_columns

    def row(tag: str, cells: list[str]) -> str:
        attributes = ["" if index < first_number else ' class="number"' for index in range(len(cells))]
        return (
            "<tr>"
            + "".join(
                f"<{tag}{attribute}>{escape(cell)}</{tag}>" for attribute, cell in zip(attributes, cells, strict=True)
            )
            + "</tr>\n"
        )

    rows = "".join(row("td", cells) for cells in table.rows)
    heading = f"<h2>{escape(table.heading)}</h2>\n" if table.heading else ""
    return f'{heading}<div class="scroll"><table>\n{row("th", table.columns)}{rows}</table></div>\n'


def _facts(result: Result) -> str:
    machine = result.machine
    facts: dict[str, Any] = {
        "with": result.command,
        "on": f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}",
        "at": result.made,
        "versions": ", ".join(
            f"{name} {release}" for name, release in {"python": machine["python"], **machine["packages"]}.items()
        ),
        "revision": machine["revision"] or "not known",
    }
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(fact))}</dd>" for name, fact in facts.items())
