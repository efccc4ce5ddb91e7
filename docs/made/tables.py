"""Tables inside pages that people write: marks say where a table begins, what it is made from, and where it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

END = "<!-- end -->"
MARKED = re.compile(r"(<!-- made from (\S+) by make docs -->\n).*?(<!-- end -->)", re.DOTALL)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_tables(page: str, made: Callable[[str], str | None]) -> str:
    """A page with its marked parts made anew.

    Args:
        page: Markdown.
        made: the new part from the name in its mark; None to leave it as it is.
    """

    def part(found: re.Match[str]) -> str:
        content = made(found[2])
        return found[0] if content is None else f"{found[1]}\n{content}\n\n{found[3]}"

    return MARKED.sub(part, page)
