"""`tests/proven.json`: the suites that have passed, each with the digest of what it depended on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

PROVEN = "tests/proven.json"


@dataclass(frozen=True)
class Proof:
    """A full run of a suite in which nothing failed.

    Attributes:
        digest: of the suite's inputs.
        passed, skipped: numbers of tests.
        seconds: that its tests took, one after the other.
        date: of the run, year-month-day.
    """

    digest: str
    passed: int
    skipped: int
    seconds: int
    date: str


def read_proofs(root: Path) -> dict[str, Proof]:
    """The proofs by the suites' names; none if there is no file."""
    path = root / PROVEN
    if not path.exists():
        return {}
    return {name: Proof(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}


def write_proofs(root: Path, proofs: Mapping[str, Proof]) -> None:
    """Write the file, whole or not at all."""
    document = {name: asdict(proofs[name]) for name in sorted(proofs)}
    written = root / f"{PROVEN}.new"
    written.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    written.replace(root / PROVEN)
