"""Times of graphs on this machine. They lie beside the artifact, never in it."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from handlers.worker.plan import Shape

BUDGET_S = 0.3  # for each graph
COMPILING = ("seconds", "megabytes")  # to compile a graph, and of memory that it takes once loaded


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
    milliseconds: dict[Shape, float],
    compiling: dict[Shape, dict[str, float]],
    precisions: dict[str, float],
    cores: int,
) -> None:
    """Write what was measured, with the machine that it belongs to.

    Args:
        folder: the artifact's.
        milliseconds: of one call of each graph.
        compiling: of each graph the fields `COMPILING`.
        precisions: milliseconds of one graph in each precision that was tried.
        cores: that computed.
    """
    document = {
        "machine": {"processor": _processor(), "cores_of_machine": os.cpu_count(), "cores_used": cores},
        "milliseconds": {str(shape): round(value, 3) for shape, value in milliseconds.items()},
        **{name: {str(shape): round(found[name], 3) for shape, found in compiling.items()} for name in COMPILING},
        "precisions": {name: round(value, 3) for name, value in precisions.items()},
    }
    times_file(folder).write_text(json.dumps(document, indent=1) + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
