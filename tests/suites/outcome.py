"""What became of a run of pytest, suite by suite, read from its report."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from tests.suites.proven import Proof
from tests.suites.table import MAY_SKIP, STACKS, SUITES


@dataclass
class Outcome:
    """Counts of a suite's tests.

    Attributes:
        passed, failed: numbers of tests; one that cannot be set up or torn down has failed.
        skipped: the reasons of those that were skipped.
        seconds: of all tests, one after the other.
    """

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0


def read_report(path: Path, belongs: Mapping[str, Callable[[str], bool]]) -> dict[str, Outcome]:
    """The outcomes of suites, from the JUnit report (family xunit1) of the run that they were in.

    Args:
        path: of the report.
        belongs: for each suite, whether a file of tests is one of its own.
    """
    outcomes = {name: Outcome() for name in belongs}
    for case in ET.parse(path).iter("testcase"):
        file = case.get("file")
        for name, outcome in outcomes.items():
            if file is None or belongs[name](file):  # what has no file may be of any
                _count(case, outcome)
    return outcomes


def _count(case: ET.Element, outcome: Outcome) -> None:
    outcome.seconds += float(case.get("time", 0))
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        outcome.failed += 1
    elif skipped is not None:
        outcome.skipped.append(skipped.get("message", ""))
    else:
        outcome.passed += 1


def unproven(name: str, outcome: Outcome) -> str | None:
    """Why a run proves nothing: a failure, no test at all, or tests skipped for want of a tool; None if it does."""
    if outcome.failed:
        return f"{outcome.failed} failed"
    if not outcome.passed:
        return "no test ran"
    allowed = (*MAY_SKIP, *STACKS[SUITES[name].stack].may_skip)
    missing = {reason for reason in outcome.skipped if not any(re.search(known, reason) for known in allowed)}
    return f"skipped: {'; '.join(sorted(missing))}" if missing else None


def proof_of(outcome: Outcome, digest: str) -> Proof:
    """What is recorded of a run that proves a suite."""
    today = date.today().isoformat()
    return Proof(digest, outcome.passed, len(outcome.skipped), round(outcome.seconds), today)
