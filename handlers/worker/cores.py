"""Core groups: which cores a worker owns."""

from __future__ import annotations

import os


def parse_core_groups(text: str) -> tuple[int, ...]:
    """Read group sizes as NEURONCORE_GROUP_SIZES writes them: "1,1,1,1" is four groups of one core.

    Raises:
        ValueError: not a comma-separated list of positive whole numbers.
    """
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError(f"{text!r} is not a list of core group sizes; write for example 1,1,1,1 or 4")
    return tuple(int(size) for size in sizes)


def worker_cores(core_groups: str | None) -> int:
    """How many cores one worker computes on: its group's size, or all that it may run on."""
    if core_groups is None:
        return len(os.sched_getaffinity(0))
    return parse_core_groups(core_groups)[0]
