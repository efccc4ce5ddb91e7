"""The response to `GET /models/NAME?customized=true`: a description of the served model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from handlers.worker.artifact import Artifact
from handlers.worker.rows.plan import longest
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Task
from handlers.worker.values import Json, Shape


def describe(
    artifact: Artifact,
    settings: Settings,
    task: Task,
    defaults: Mapping[str, Json],
    cores: Sequence[int],
    parity: float,
    times: Mapping[Shape, float],
) -> Json:
    """Describe the served model: task, labels, engine, precision, shapes, parity, cores, versions, limits, process.

    Args:
        artifact: the model's artifact.
        settings: how it is served.
        task: its task.
        defaults: its own defaults for parameters, if they differ from the task's.
        cores: the cores that this worker computes on, in the host's numbering.
        parity: as this worker measured it.
        times: milliseconds of one call of each graph, as this worker measured them.
    """
    return {
        "name": artifact.name,
        "version": settings.version,
        "task": artifact.task,
        "labels": {name: list(head.labels) for name, head in artifact.signature.heads.items()},
        "engine": artifact.engine,
        "precision": artifact.precision,
        "shapes": [str(shape) for shape in artifact.shapes],
        "milliseconds": {str(shape): round(time, 3) for shape, time in times.items()},
        "max_tokens": longest(artifact.shapes),
        "long_text": settings.long_text,
        "parameters": {name: defaults.get(name, parameter.default) for name, parameter in task.parameters.items()},
        "prompts": {name: prompt.text for name, prompt in artifact.signature.prompts.items()},
        "parity": {
            "tolerance": artifact.tolerance,
            "compiled": max((graph.parity for graph in artifact.graphs if graph.parity is not None), default=None),
            "served": parity,
        },
        "core_groups": settings.core_groups,
        "mode": settings.mode,
        "cores": list(cores),
        "compiler": dict(artifact.compiler),
        "versions": {"compiled": dict(artifact.versions), "served": _installed(artifact.versions)},
        "limits": settings.limits._asdict(),
        "deadline_ms": settings.deadline_ms,
        "max_batch_ms": settings.max_batch_ms,
        "pid": os.getpid(),
    }


def _installed(packages: Mapping[str, str]) -> dict[str, str]:
    """The installed versions of packages on this host; packages that are not installed are left out."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
