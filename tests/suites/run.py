"""Runs stages one after the other: environments, checks, the fast tests, and suites."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.coverage.measure import Measuring
from tests.suites.outcome import Outcome, read_report
from tests.suites.table import STACKS, SUITES

# a file of options, which the Makefile has too
SIDE_BY_SIDE = ("@tests/side_by_side",)
TESTS_FAILED = 1  # the status of pytest when it ran and tests failed


@dataclass
class Stage:
    """A line of the table.

    Attributes:
        name: of the stage.
        seconds: that it took.
        outcomes: of its suites, by name; the fast tests are one of the name "test".
        failure: why it failed; None if it did not.
    """

    name: str
    seconds: float
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failure: str | None = None


def make(root: Path, name: str, *targets: str) -> Stage:
    """Make targets of the Makefile."""
    start = time.monotonic()
    code = subprocess.run(["make", "--no-print-directory", *targets], cwd=root, check=False).returncode
    return Stage(name, time.monotonic() - start, {}, f"make {' '.join(targets)} failed" if code else None)


def can_run(root: Path, name: str) -> str | None:
    """Why a suite cannot run on this machine; None if it can."""
    stack = STACKS[SUITES[name].stack]
    if not stack.installed:
        return None
    code = subprocess.run(["make", stack.installed], cwd=root, capture_output=True, check=False).returncode
    return f"no Python {stack.version} here" if code else None


def batches(names: Iterable[str]) -> list[list[str]]:
    """Suites that one run of pytest takes together: in the same environment, with the same options."""
    found: dict[str, list[str]] = {}
    for name in names:
        suite = SUITES[name]
        found.setdefault(f"{suite.stack} {suite.options} {dict(suite.environment)}", []).append(name)
    return list(found.values())


def run_fast(root: Path, measuring: Measuring | None = None) -> Stage:
    """`make test`, with its counts."""
    if measuring:
        measuring.follow(STACKS["cpu"].python)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        start = time.monotonic()
        environment = {**os.environ, "PYTEST_ADDOPTS": f"--junitxml={report}"}
        code = subprocess.run(["make", "test"], cwd=root, env=environment, check=False).returncode
        stage = Stage("test", time.monotonic() - start, {}, "make test failed" if code else None)
        if report.exists():
            stage.outcomes = read_report(report, {"test": lambda _: True})
    return stage


def run_suites(root: Path, names: list[str], measuring: Measuring | None = None) -> Stage:
    """Run suites together: those of `batches`."""
    suites = [SUITES[name] for name in names]
    stack = STACKS[suites[0].stack]
    if measuring:
        measuring.follow(stack.python)
    tests = [test for suite in suites for test in suite.tests]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = [*SIDE_BY_SIDE, *suites[0].options, f"--junitxml={report}", "-o", "junit_family=xunit1"]
        command = [stack.python, "-m", "pytest", *options, "--durations=40", "--durations-min=5", *tests]
        start = time.monotonic()
        variables: Mapping[str, str] = {**os.environ, **suites[0].environment}
        code = subprocess.run(command, cwd=root, env=variables, check=False).returncode
        stage = Stage(", ".join(names), time.monotonic() - start)
        # a run that broke off has no counts that mean anything
        if code in (0, TESTS_FAILED) and report.exists():
            stage.outcomes = read_report(report, {name: SUITES[name].has for name in names})
        if code:
            stage.failure = f"pytest ended with {code}"
    return stage
