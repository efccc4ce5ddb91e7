"""Measures a sweep: every combination of the values in a bench.yaml."""

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
    """Measure a sweep, or the rest of a sweep; `more["failures"]` lists the combinations that could not be measured.

    Args:
        project: project of the models.
        path: path of the bench.yaml.
        folder: folder where rounds are stored.
        instance, price: override the values in the file; an `instance` without `price` also its price.
        progress: called with the current step.

    Raises:
        MarinaError: nothing could be measured, or the spec or a file that it refers to is missing.
    """
    sweep = read_fields(path, Sweep)
    settings = settings_of(sweep, project)
    per_hour = sweep.price if instance is None and price is None else price
    machine_price = price_of(instance or sweep.instance, per_hour, project.root)
    journal = Journal(folder / "rounds.jsonl", project.root, sweep.protocol)
    with benchmark_server(project, progress) as server:
        entries, failures = measure_settings(sweep, settings, server, journal, progress)
    if not entries:
        raise MarinaError(f"{path}: nothing could be measured; {failures[0]}")
    more = {"failures": failures} if failures else {}
    return Result("sweep", f"{path.stem}: {sweep.model}", entries, machine_price, sweep.baseline, more)


def measure_settings(
    sweep: Sweep, settings: list[Setting], server: BenchmarkServer, journal: Journal, progress: Progress
) -> tuple[list[Entry], list[str]]:
    """Measure the rounds that the journal does not have; combinations that cannot be compiled or served are left out.

    Raises:
        SourceError, SpecError: a file that the spec refers to is missing.
    """
    strategies = [
        served_strategy(
            server, setting.describe(), setting.configuration(), setting.spec, setting.workloads, sweep.protocol
        )
        for setting in settings
    ]
    return measure_rounds(strategies, sweep.rounds, progress, journal, leave_out_failures=True)
