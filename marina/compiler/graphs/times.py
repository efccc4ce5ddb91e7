"""Times of graphs on this machine. They lie beside the artifact, never in it."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.worker.artifact import Signature
from handlers.worker.engines import Graph
from handlers.worker.rows.timing import warm_up
from handlers.worker.values import Shape
from marina.compiler.record import CheckedGraph, PrecisionRecord

ROUNDS, CALLS, ROUND_S = 9, 3, 0.03  # of graphs that are compared: rounds, and calls and seconds in one at least
COMPILING = ("seconds", "megabytes")  # fields of a graph: to compile it, and of memory that it takes once loaded


def time_in_turn(graphs: Mapping[str, tuple[Graph, Shape]], signature: Signature) -> dict[str, tuple[float, ...]]:
    """Milliseconds of one call of each graph with every place filled, in rounds that take turns.

    What slows the machine down for a while then slows all of them. A round is the median of a few calls.

    Args:
        graphs: by name, each with its shape.
        signature: their model's.
    """
    for graph, shape in graphs.values():
        warm_up(graph, shape, signature)
    rounds: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, (graph, shape) in graphs.items():
            calls: list[float] = []
            while len(calls) < CALLS or sum(calls) < ROUND_S:
                start = time.perf_counter()
                graph.run(shape.batch_size)
                calls.append(time.perf_counter() - start)
            rounds[name].append(statistics.median(calls) * 1000)
    return {name: tuple(times) for name, times in rounds.items()}


def times_file(folder: Path) -> Path:
    """The file with the times of the artifact in `folder`, whether that is complete or partial."""
    return folder.parent / f"{folder.stem}.times.json"


def read_times(folder: Path) -> dict[Shape, float]:
    """Milliseconds of each graph of the artifact in `folder`; empty if they were not measured here."""
    return {Shape.parse(shape): float(value) for shape, value in read_measured(folder).get("milliseconds", {}).items()}


def read_measured(folder: Path) -> dict[str, Any]:
    """All that was measured while the artifact in `folder` was built; empty if that was not here."""
    try:
        found: dict[str, Any] = json.loads(times_file(folder).read_text())
    except (OSError, ValueError):
        return {}
    return found


def write_times(
    folder: Path,
    milliseconds: Mapping[Shape, float],
    graphs: Sequence[CheckedGraph],
    precision: PrecisionRecord,
    cores: int,
) -> None:
    """Write what was measured, with the machine that it belongs to.

    Args:
        folder: the artifact's.
        milliseconds: of one call of each graph.
        graphs: with the seconds of compiling each, and the megabytes that it takes once loaded.
        precision: with the times of those that were tried.
        cores: that computed.
    """
    document = {
        "machine": {"processor": _processor(), "cores_of_machine": os.cpu_count(), "cores_used": cores},
        "milliseconds": {str(shape): round(value, 3) for shape, value in milliseconds.items()},
        "seconds": {str(graph.compiled.shape): round(graph.compiled.seconds, 3) for graph in graphs},
        "megabytes": {str(graph.compiled.shape): round(graph.megabytes, 3) for graph in graphs},
        "precisions": {name: round(value, 3) for name, value in precision.milliseconds.items()},
        "noise": round(precision.noise, 3),
    }
    times_file(folder).write_text(json.dumps(document, indent=1) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
