"""What others have published, for the columns beside ours; published.yaml names every source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "published.yaml"


@cache
def published(table: str) -> dict[str, Any]:
    """The claim, and the rows where there are any, of one table, with or without "table-"."""
    entry: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))[table.removeprefix("table-")]
    return entry


def claim_note(table: str) -> str:
    """The claim with its hardware and source, as a line."""
    claim = published(table)["claim"]
    return f"published, not measured here: {claim['said']} ({claim['hardware']}; {claim['source']})"
