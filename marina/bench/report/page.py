"""report.html: one file with conclusion, tables, pictures and the machine. It loads nothing over the network."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from marina.bench.report.results import Result
from marina.bench.report.table import Table, TableLayout

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #888; }
.number { text-align: right; }
.scroll { overflow-x: auto; }
.conclusion { font-size: 1.15rem; font-weight: 600; }
img { max-width: 100%; }
ul { color: #444; } dt { font-weight: 600; } dd { margin: 0 0 .3rem 1rem; }
"""


def page_of(result: Result, layout: TableLayout, pictures: dict[str, bytes]) -> str:
    """The HTML of the page, from the result's layout and pictures."""
    images = "".join(
        f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{base64.b64encode(picture).decode()}">\n'
        for name, picture in pictures.items()
    )
    tables = "".join(map(_table, layout.tables))
    conclusion = f'<p class="conclusion">{escape(layout.conclusion)}</p>\n' if layout.conclusion else ""
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in layout.notes)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(result.title)}</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(result.title)}</h1>\n{conclusion}{tables}<ul>\n{notes}</ul>\n{images}"
        f"<h2>Measured</h2>\n<dl>{_facts(result)}</dl>\n</body></html>\n"
    )


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
