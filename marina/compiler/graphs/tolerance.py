"""The tolerance of an artifact: the maximum difference between its graphs' outputs and the golden rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from handlers.worker.members.golden import GoldenRow
from marina.compiler.graphs.parity import estimate_parity, round_up
from marina.compiler.job import CompileJob
from marina.compiler.record import CheckedGraph
from marina.engines.model import ExportedModel
from marina.errors import CompileError

MARGIN = 2  # a lower precision may differ on another processor by this factor times the difference measured here
ESTIMATE_MARGIN = 4  # the same factor for an estimated difference, if the graphs could not be run


def tolerance(
    job: CompileJob, model: ExportedModel, rows: list[GoldenRow], graphs: Sequence[CheckedGraph], precision: str
) -> float:
    """The tolerance that workers check the graphs with; CompileError if it cannot be estimated."""
    if precision == "f32":
        return f32_tolerance(job)
    parities = [graph.parity for graph in graphs if graph.parity is not None]
    if parities:
        return round_up(MARGIN * max(parities))
    if precision.startswith("fp8"):
        raise CompileError(
            f"{job.spec.name}: what {precision} does to outputs cannot be told without a free NeuronCore; "
            "compile on an instance"
        )
    estimate = estimate_parity(model, rows, job.engine.casts_all(job.spec.for_engine))
    if not math.isfinite(estimate):
        raise CompileError(
            f"{job.spec.name}: the effect of {precision} on outputs cannot be estimated without a free NeuronCore: "
            f"with bf16 on this CPU they are NaN or infinite; compile on an instance, or use {job.engine.more_exact}"
        )
    return max(f32_tolerance(job), round_up(ESTIMATE_MARGIN * estimate))


def f32_tolerance(job: CompileJob) -> float:
    """The tolerance of outputs in f32: the spec's, or else its engine's."""
    parity, default = job.spec.parity, job.engine.tolerance
    return parity.tolerance if "tolerance" in parity.model_fields_set or default is None else default
