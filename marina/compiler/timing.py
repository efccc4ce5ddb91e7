"""Times of graphs on this machine. They lie beside the artifact, never in it."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path

from handlers.worker.artifact import Artifact
from handlers.worker.calls import fill_inputs
from handlers.worker.engines import Graph
from handlers.worker.plan import Shape
from handlers.worker.tokenizing import Row

BUDGET_S = 0.3  # for each graph
REPEATS = (3, 50)  # at least, at most


def time_graph(graph: Graph, shape: Shape, artifact: Artifact) -> float:
    """Median milliseconds of one call with every place filled, after a warm-up."""
    row = Row([artifact.pad_token_id] * shape.sequence_length, [0] * shape.sequence_length)
    inputs = fill_inputs([row] * shape.batch_size, shape, artifact)
    graph.run(inputs)
    times: list[float] = []
    while len(times) < REPEATS[0] or (sum(times) < BUDGET_S and len(times) < REPEATS[1]):
        start = time.perf_counter()
        graph.run(inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def times_file(folder: Path) -> Path:
    """The file with the times of the artifact in `folder`, whether that is complete or partial."""
    return folder.parent / f"{folder.stem}.times.json"


def read_times(folder: Path) -> dict[Shape, float]:
    """Milliseconds of each graph of the artifact in `folder`; empty if they were not measured here."""
    try:
        document = json.loads(times_file(folder).read_text())
        return {Shape.parse(shape): float(value) for shape, value in document["milliseconds"].items()}
    except (OSError, ValueError, KeyError):
        return {}


def write_times(folder: Path, milliseconds: dict[Shape, float], cores: int) -> None:
    """Write the measured times, with the machine that they belong to."""
    document = {
        "machine": {"processor": _processor(), "cores_of_machine": os.cpu_count(), "cores_used": cores},
        "milliseconds": {str(shape): round(value, 3) for shape, value in milliseconds.items()},
    }
    times_file(folder).write_text(json.dumps(document, indent=1) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
