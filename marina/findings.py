"""The findings of checks."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """One line of the doctor's report.

    state is "ok", "note" (serving works, but the user should know this) or "fails" (serving cannot work).
    """

    check: str
    state: Literal["ok", "note", "fails"]
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, "ok", found)


def note(check: str, found: str, fix: str = "") -> Finding:
    """A finding that the user should know, although serving works."""
    return Finding(check, "note", found, fix)


def fails(check: str, found: str, fix: str) -> Finding:
    """A problem that must be fixed before serving can work."""
    return Finding(check, "fails", found, fix)
