"""The tolerance of an artifact: how far the outputs of its graphs may be from the golden rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from handlers.worker.golden import GoldenRow
from marina.compiler.job import Job
from marina.compiler.parity import estimate_parity, round_up
from marina.errors import CompileError

if TYPE_CHECKING:
    from marina.compiler.export import ExportedModel

MARGIN = 2  # what a lower precision may differ by on another processor, over what was seen here
UNSEEN_MARGIN = 4  # and over what was estimated, where the graphs could not be run
NEURON_TOLERANCE = 1e-3  # in f32 on Neuron engines; what optimum-neuron allows BERT


def gate(job: Job, precision: str) -> float:
    """The tolerance while graphs are checked: a lower precision is judged by its answers, and held to what it did."""
    return _own_tolerance(job) if precision == "f32" else math.inf


def tolerance(
    job: Job, model: ExportedModel, rows: list[GoldenRow], records: list[dict[str, Any]], precision: str
) -> float:
    """The tolerance that workers hold the graphs to."""
    if precision == "f32":
        return _own_tolerance(job)
    found = [record["parity"] for record in records if record["parity"] is not None]
    if found:
        return round_up(MARGIN * max(found))
    if precision.startswith("fp8"):
        raise CompileError(
            f"{job.spec.name}: what {precision} does to outputs cannot be told without a free NeuronCore; "
            "compile on an instance"
        )
    estimate = estimate_parity(model, rows, job.spec.casts_all)
    return max(_own_tolerance(job), round_up(UNSEEN_MARGIN * estimate))


def _own_tolerance(job: Job) -> float:
    """The spec's, or else that of its kind of engine."""
    parity = job.spec.parity
    return parity.tolerance if "tolerance" in parity.model_fields_set or not job.options else NEURON_TOLERANCE
