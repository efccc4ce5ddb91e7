"""Measures a sweep: every combination of what a bench.yaml lists."""

from __future__ import annotations

from pathlib import Path

from marina.bench.report.pricing import price_of
from marina.bench.report.results import Entry, Result
from marina.bench.server.benchmark_server import BenchmarkServer, benchmark_server
from marina.bench.sweep.journal import Journal
from marina.bench.sweep.rounds import measure_rounds
from marina.bench.sweep.spec import Setting, Sweep, settings_of
from marina.bench.sweep.strategies import served_strategy
from marina.console import Progress
from marina.errors import MarinaError
from marina.fields import read_fields
from marina.project import Project


def run_sweep(
    project: Project, path: Path, folder: Path, instance: str | None, price: float | None, progress: Progress
) -> Result:
    """Measure a sweep, or the rest of one; what could not be measured is in `more["failures"]`.

    Args:
        project: whose models.
        path: of the bench.yaml.
        folder: where its rounds are kept.
        instance, price: instead of the file's.
        progress: is given what is being done.

    Raises:
        MarinaError: nothing could be measured, or the spec or what it refers to is missing.
    """
    sweep = read_fields(path, Sweep)
    settings = settings_of(sweep, project)
    known = price_of(instance or sweep.instance, sweep.price if price is None else price, project.root)
    journal = Journal(folder / "rounds.jsonl", project.root, sweep.protocol)
    with benchmark_server(project, progress) as server:
        entries, failures = measure_settings(sweep, settings, server, journal, progress)
    if not entries:
        raise MarinaError(f"{path}: nothing could be measured; {failures[0]}")
    more = {"failures": failures} if failures else {}
    return Result("sweep", f"{path.stem}: {sweep.model}", entries, known, sweep.baseline, more)


def measure_settings(
    sweep: Sweep, settings: list[Setting], server: BenchmarkServer, journal: Journal, progress: Progress
) -> tuple[list[Entry], list[str]]:
    """Measure what the journal does not have; a combination that cannot be compiled or served is left out.

    Raises:
        SourceError, SpecError: what the spec refers to is missing.
    """
    strategies = [
        served_strategy(server, one.describe(), one.configuration(), one.spec, one.workloads, sweep.protocol)
        for one in settings
    ]
    return measure_rounds(strategies, sweep.rounds, progress, journal, leave_out_failures=True)
