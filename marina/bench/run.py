"""What `marina bench` does: one model that is served, its bare graphs, a sweep, or a table of the field."""

from __future__ import annotations

from pathlib import Path

from handlers.worker.artifact import read_artifact
from handlers.worker.tasks import TASKS
from marina.bench.bare import bare_graphs, measured_bare
from marina.bench.costs import Price, price_of
from marina.bench.journal import Journal
from marina.bench.load import Load
from marina.bench.measured import Window
from marina.bench.result import Entry, Result
from marina.bench.served import Protocol, Served, asked_how, check, measure_served, served_here, served_there
from marina.bench.stage import stage
from marina.bench.sweep import Sweep, run_sweep, settings_of
from marina.bench.tables import table_kind
from marina.bench.texts import MIX, read_asked, read_instances, texts_of
from marina.compiler import compile_model
from marina.console import Progress
from marina.errors import MarinaError
from marina.fields import read_fields
from marina.project import Project
from marina.spec import Spec, read_spec


def find_served(project: Project, name: str, url: str | None, token: str | None, protocol: Protocol) -> Served:
    """A model of the project's own server, or of another one where a URL is given."""
    if url is None:
        return served_here(project, name, protocol)
    path = project.models / f"{name}.yaml"
    return served_there(url, name, protocol, token, read_spec(path).task if path.exists() else None)


def bench_served(
    project: Project, served: Served, texts: str | None, instances: int, load: Load, progress: Progress
) -> Entry:
    """Measure one load; raises what `read_asked`, `check` and `measure` raise."""
    asked = read_asked(texts or _examples(project, served.target.model), served.fields, instances)
    check(served, asked)
    progress("warming up", 0, load.most_windows)

    def told(window: Window, done: int, most: int) -> None:
        tail = "no answer" if window.p99_ms is None else f"p99 {window.p99_ms:.1f} ms"
        progress(f"{window.throughput:.0f} instances/s, {tail}", done, most)

    measured = measure_served(served, asked, load, told)
    return Entry({**served.configuration, **asked_how(load, asked)}, [measured])


def bench_bare(project: Project, spec: Spec, texts: str | None, seconds: float, progress: Progress) -> Entry:
    """Run a model's graphs without a server, compiling them first where that has not been done."""
    artifact = compile_model(spec, project, progress).folder
    progress("running the graphs", 0, 1)
    instances = read_instances(texts or texts_of(spec, project), TASKS[spec.task].fields)
    with bare_graphs(spec, artifact, instances) as graphs:
        measured = measured_bare(graphs.run(seconds), seconds)
    described = read_artifact(artifact)
    configuration = {
        "model": spec.name,
        "engine": described.engine,
        "precision": described.precision,
        "shapes": [str(shape) for shape in described.shapes],
        "core_groups": spec.core_groups,
        "workers": spec.workers,
        "protocol": "none: bare graphs",
    }
    return Entry(configuration, [measured])


def bench_sweep(
    project: Project, path: Path, folder: Path, instance: str | None, price: float | None, progress: Progress
) -> Result:
    """Measure a sweep, or the rest of one; what could not be measured is in `more["failures"]`.

    Args:
        project: whose models.
        path: of the bench.yaml.
        folder: where its rounds are kept.
        instance, price: instead of the file's.
        progress: told of what is done.

    Raises:
        MarinaError: nothing could be measured, or the spec or what it refers to is missing.
    """
    asked = read_fields(path, Sweep)
    settings = settings_of(asked, project)
    known = price_of(instance or asked.instance, asked.price if price is None else price, project.root)
    journal = Journal(folder / "rounds.jsonl", project.root)
    with stage(project, "stage", progress) as own:
        entries, failures = run_sweep(asked, settings, own, journal, progress)
    if not entries:
        raise MarinaError(f"{path}: nothing could be measured; {failures[0]}")
    more = {"failures": failures} if failures else {}
    return Result("sweep", f"{path.stem}: {asked.model}", entries, known, asked.baseline, more)


def bench_table(
    project: Project, table: str, name: str | None, engine: str | None, price: Price | None, progress: Progress
) -> Result:
    """Measure one of the field's tables, for a model or for the demonstration models."""
    kind = table_kind(table)
    with stage(project, "stage", progress) as own:
        return kind.measure(own, project, name, engine, price, progress)


def _examples(project: Project, name: str) -> str:
    """The spec's own texts, or the built-in mix."""
    path = project.models / f"{name}.yaml"
    return texts_of(read_spec(path), project) if path.exists() else MIX
