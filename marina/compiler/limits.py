"""Limits that are checked before compiling: memory, and the length of text that the model can read."""

from __future__ import annotations

from handlers.worker.placement.limits import free_memory
from handlers.worker.rows.plan import max_sequence_length
from marina.compiler.job import CompileJob
from marina.errors import CompileError

# Memory: a constant for libraries, and bytes per weight. Each weight is held in float32 by the model and by the
# engine's copy of it, and in float64 beside the model while the reference is computed.
BASE_BYTES, BYTES_PER_WEIGHT = 500_000_000, 12


def memory_needed(weights: int) -> int:
    """The approximate bytes of memory that compiling a model with `weights` weights needs."""
    return BASE_BYTES + BYTES_PER_WEIGHT * weights


def check_memory(job: CompileJob, weights: int) -> None:
    """CompileError if there is not enough free memory to compile."""
    need, free = memory_needed(weights), free_memory()
    if free < need:
        raise CompileError(
            f"{job.spec.name}: compiling needs about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free, "
            "within the limit of the container if there is one; free some, or compile elsewhere"
        )


def check_length(job: CompileJob, positions: int | None, filled: int = 0) -> None:
    """CompileError if the shapes do not suit the model.

    Args:
        job: the job.
        positions: the tokens that the model can read; None if there is no limit.
        filled: the tokens that queries are filled up to; 0 if they are not.
    """
    length = max_sequence_length(job.shapes)
    if length < filled:
        raise CompileError(
            f"{job.spec.name}: queries have {filled} tokens in this model, and its longest shape has {length}; compile "
            "a longer one"
        )
    if positions and length > positions:
        raise CompileError(
            f"{job.spec.name}: a shape of {length} tokens is more than the model can read ({positions}); "
            "shorten the longest of the spec's shapes"
        )
