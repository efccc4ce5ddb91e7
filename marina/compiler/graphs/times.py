"""Times of graphs on this machine. They are stored beside the artifact, never in it."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Graph
from handlers.worker.rows.timing import warm_up
from handlers.worker.values import Shape
from marina.compiler.record import CheckedGraph, MeasuredGraphs, PrecisionRecord
from marina.files import read_object, write_json

ROUNDS, CALLS, ROUND_S = 9, 3, 0.03  # comparison of graphs: rounds; and per round the minimum calls and seconds
BUILD_FIELDS = ("seconds", "megabytes")  # of a graph: its compile time, and its part of the memory of all


def time_in_turn(graphs: Mapping[str, tuple[Graph, Shape]], signature: Signature) -> dict[str, tuple[float, ...]]:
    """Milliseconds of one call of each graph with every place filled, in interleaved rounds.

    A temporary slowdown of the machine then affects all graphs alike. A round is the median of a few calls.

    Args:
        graphs: the graphs by name, each with its shape.
        signature: the model's signature.
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
    """The file with the times of the artifact in `folder`, whether it is complete or partial."""
    return folder.parent / f"{folder.stem}.times.json"


def read_times(folder: Path) -> dict[Shape, float]:
    """Milliseconds of each graph of the artifact in `folder`; empty if they were not measured here."""
    return {Shape.parse(shape): float(value) for shape, value in read_measured(folder).get("milliseconds", {}).items()}


def read_measured(folder: Path) -> dict[str, Any]:
    """All measurements from the build of the artifact in `folder`; empty if it was not built here."""
    return read_object(times_file(folder)) or {}


def read_builds(artifacts: Path, engine: str) -> list[dict[str, Any]]:
    """All measurements from building a project's artifacts for an engine, on the present processor."""
    measurements = [read_object(path) or {} for path in artifacts.glob("*/*.times.json")]
    processor = _processor()
    return [
        build
        for build in measurements
        if build.get("build", {}).get("engine") == engine and build["machine"]["processor"] == processor
    ]


def write_times(
    folder: Path,
    measured: MeasuredGraphs,
    graphs: Sequence[CheckedGraph],
    precision: PrecisionRecord,
    cores: int,
    build: Mapping[str, Any],
) -> None:
    """Write the measurements, with the machine that they were made on.

    Args:
        folder: the artifact's folder.
        measured: the times of calls, and the memory of all graphs.
        graphs: the graphs, with their compile seconds.
        precision: the precision record, with the times of the precisions that were tried.
        cores: the number of cores that computed.
        build: the engine, the number of weights and the total seconds of the build, as JSON types.
    """
    document = {
        "machine": {"processor": _processor(), "cores_of_machine": os.cpu_count(), "cores_used": cores},
        "milliseconds": {str(shape): round(value, 3) for shape, value in measured.milliseconds.items()},
        "seconds": {str(graph.compiled.shape): round(graph.compiled.seconds, 3) for graph in graphs},
        "megabytes": {str(graph.compiled.shape): round(measured.megabytes / len(graphs), 3) for graph in graphs},
        "precisions": {name: round(value, 3) for name, value in precision.milliseconds.items()},
        "noise": round(precision.noise, 3),
        "build": build,
    }
    write_json(times_file(folder), document)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
