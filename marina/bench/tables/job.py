"""The parameters of a table run, the same for every table; and shapes for the texts that most tables send."""

from __future__ import annotations

from typing import NamedTuple

from marina.bench.load.mix import mixed_texts
from marina.bench.report.pricing import Price
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.console import Progress
from marina.project import Project
from marina.shapes.advice import Advice, advise
from marina.spec import Spec, read_spec


class TableJob(NamedTuple):
    """One run of a table.

    Attributes:
        server: server to use.
        project: project of the models.
        name: name of one of the user's models, or None for the table's own models.
        engine: overrides the engine in the spec; or None.
        price: hourly price of the instance, or None.
        progress: called with the current step.
    """

    server: BenchmarkServer
    project: Project
    name: str | None
    engine: str | None
    price: Price | None
    progress: Progress

    def spec(self, default: str) -> Spec:
        """The spec of the user's model, or else of the given default model of the table."""
        overrides = {"engine": self.engine} if self.engine else None
        return read_spec(self.project.models / f"{self.name or default}.yaml", overrides)


def advice_for_mix(job: TableJob, spec: Spec, graphs: int | None, price: float) -> Advice:
    """The best shapes of a model for other texts of the built-in mix than the texts that are sent.

    Args:
        job: the run.
        spec: the model, with a shape of the maximum length.
        graphs, price: as in `advise`.
    """
    lengths = job.server.project.root / "lengths.csv"
    lengths.write_text("text\n" + "\n".join(mixed_texts(seed=1)) + "\n")
    return advise(spec, job.project, lengths, graphs, price, job.progress)
