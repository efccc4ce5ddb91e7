"""The tolerance of an artifact: how far the outputs of its graphs may be from the golden rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from handlers.worker.golden import GoldenRow
from marina.compiler.graphs.parity import estimate_parity, round_up
from marina.compiler.job import Job
from marina.compiler.record import CheckedGraph
from marina.engines.model import ExportedModel
from marina.errors import CompileError

MARGIN = 2  # what a lower precision may differ by on another processor, over what was seen here
UNSEEN_MARGIN = 4  # and over what was estimated, where the graphs could not be run


def gate(job: Job, precision: str) -> float:
    """The tolerance while graphs are checked: a lower precision is judged by its answers, and held to what it did."""
    return own_tolerance(job) if precision == "f32" else math.inf


def tolerance(
    job: Job, model: ExportedModel, rows: list[GoldenRow], graphs: Sequence[CheckedGraph], precision: str
) -> float:
    """The tolerance that workers hold the graphs to."""
    if precision == "f32":
        return own_tolerance(job)
    seen = [graph.parity for graph in graphs if graph.parity is not None]
    if seen:
        return round_up(MARGIN * max(seen))
    if precision.startswith("fp8"):
        raise CompileError(
            f"{job.spec.name}: what {precision} does to outputs cannot be told without a free NeuronCore; "
            "compile on an instance"
        )
    estimate = estimate_parity(model, rows, job.engine.casts_all(job.spec.for_engine))
    return max(own_tolerance(job), round_up(UNSEEN_MARGIN * estimate))


def own_tolerance(job: Job) -> float:
    """The spec's, or else that of its engine."""
    parity, default = job.spec.parity, job.engine.tolerance
    return parity.tolerance if "tolerance" in parity.model_fields_set or default is None else default
