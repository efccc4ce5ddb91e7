"""The tolerance of an artifact: the maximum difference between its graphs' outputs and the golden rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from handlers.worker.golden import GoldenRow
from marina.compiler.graphs.parity import estimate_parity, round_up
from marina.compiler.job import CompileJob
from marina.compiler.record import CheckedGraph
from marina.engines.model import ExportedModel
from marina.errors import CompileError

MARGIN = 2  # a lower precision may differ on another processor by this factor times the difference measured here
UNSEEN_MARGIN = 4  # the same factor for an estimated difference, if the graphs could not be run


def gate(job: CompileJob, precision: str) -> float:
    """The tolerance while graphs are checked; infinite for a lower precision, which is judged by its answers."""
    return own_tolerance(job) if precision == "f32" else math.inf


def tolerance(
    job: CompileJob, model: ExportedModel, rows: list[GoldenRow], graphs: Sequence[CheckedGraph], precision: str
) -> float:
    """The tolerance that workers check the graphs with."""
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


def own_tolerance(job: CompileJob) -> float:
    """The spec's tolerance, or else its engine's."""
    parity, default = job.spec.parity, job.engine.tolerance
    return parity.tolerance if "tolerance" in parity.model_fields_set or default is None else default
