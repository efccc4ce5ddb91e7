"""What a table is measured with: the same for every table."""

from __future__ import annotations

from typing import NamedTuple

from marina.bench.report.pricing import Price
from marina.bench.server.benchmark_server import BenchmarkServer
from marina.console import Progress
from marina.project import Project
from marina.spec import Spec, read_spec


class Job(NamedTuple):
    """One run of a table.

    Attributes:
        server: where to serve.
        project: whose models.
        name: a model of the user's, or None for those of the table.
        engine: instead of the spec's, or None.
        price: of an hour of the instance, or None.
        progress: is given what is being done.
    """

    server: BenchmarkServer
    project: Project
    name: str | None
    engine: str | None
    price: Price | None
    progress: Progress

    def spec(self, default: str) -> Spec:
        """The spec of the user's model, or of one of the table's."""
        overrides = {"engine": self.engine} if self.engine else None
        return read_spec(self.project.models / f"{self.name or default}.yaml", overrides)
