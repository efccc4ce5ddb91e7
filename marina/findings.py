"""What a check found."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """One line of the doctor's report.

    state is "ok", "note" (serving works, but read this) or "fails" (it cannot).
    """

    check: str
    state: Literal["ok", "note", "fails"]
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", found)


def note(check: str, found: str, fix: str = "") -> Finding:
    """Serving works, but a person should know."""
    return Finding(check, "note", found, fix)


def fails(check: str, found: str, fix: str) -> Finding:
    """Serving cannot work until it is put right."""
    return Finding(check, "fails", found, fix)
