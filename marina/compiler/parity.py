"""The parity gate: every graph against the reference model, on every example that it holds."""

from __future__ import annotations

import math

from handlers.worker.artifact import Artifact
from handlers.worker.engines import Graph
from handlers.worker.errors import GoldenError
from handlers.worker.golden import GoldenRow, check_graph
from handlers.worker.plan import Shape
from marina.errors import CompileError


def measure_parity(graph: Graph, shape: Shape, rows: list[GoldenRow], artifact: Artifact) -> float:
    """The largest absolute difference to the reference, rounded up to one significant digit.

    The digits after the first differ from one processor to another.

    Raises:
        CompileError: it exceeds the tolerance, or an output is not finite.
    """
    try:
        return round_up(check_graph(graph, shape, rows, artifact))
    except GoldenError as error:
        raise CompileError(
            f"{artifact.name}: {error}; no artifact was written. Raise parity.tolerance in the spec only if "
            "that difference is acceptable, else try another engine"
        ) from None


def round_up(value: float) -> float:
    """Round up to one significant digit: 2.3e-7 becomes 3e-7."""
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(value))
    return float(f"{math.ceil(value / 10.0**exponent)}e{exponent}")
