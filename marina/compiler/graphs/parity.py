"""Differences from the reference model as they are recorded, and an estimate where graphs cannot be run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from handlers.worker.members.golden import GoldenRow
from marina.engines.model import ExportedModel, row_inputs


def round_up(value: float) -> float:
    """Round up to one significant digit: 2.3e-7 becomes 3e-7."""
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(value))
    return float(f"{math.ceil(value / 10.0**exponent)}e{exponent}")


def estimate_parity(model: ExportedModel, rows: Sequence[GoldenRow], casts_all: bool) -> float:
    """Estimate how 16-bit numbers change outputs if graphs cannot be run here: the same rounding on this CPU.

    Args:
        model: the model in float32.
        rows: rows with reference outputs.
        casts_all: whether everything is rounded to bf16, or only matrix products.

    Returns:
        The largest difference; NaN or infinite if an output is.
    """
    import torch

    worst = 0.0
    module = model.module.bfloat16() if casts_all else model.module
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=not casts_all):
            for row in rows:
                inputs = [torch.tensor([values]) for values in row_inputs(row.row, model).values()]
                for output, expected in zip(module(*inputs), row.outputs, strict=True):
                    worst = float(np.maximum(worst, abs(output[0].double().numpy() - expected).max()))
    finally:
        module.float()
    return round_up(worst) if math.isfinite(worst) else worst
