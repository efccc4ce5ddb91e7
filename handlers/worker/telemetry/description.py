"""The response to `GET /models/NAME?customized=true`: a description of the served model."""

from __future__ import annotations

import os
from collections.abc import Sequence

from handlers.worker.engines.packages import installed
from handlers.worker.members.member import Member
from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.settings import Settings
from handlers.worker.values import Json


def describe_member(member: Member) -> dict[str, Json]:
    """Describe a model: task, labels, engine, precision, shapes, times, parity, compiler, versions, limits.

    "milliseconds" of one call of each graph, and the parity "served", are as this worker measured them.
    """
    artifact, parameters = member.artifact, member.task.parameters
    served = {name: release for name in artifact.versions if (release := installed(name))}
    return {
        "name": artifact.name,
        "task": artifact.task,
        "fields": list(member.task.fields.names),
        "labels": {name: list(head.labels) for name, head in artifact.signature.heads.items()},
        "dimensions": list(artifact.signature.dimensions),
        "engine": artifact.engine,
        "precision": artifact.precision,
        "shapes": [str(shape) for shape in artifact.shapes],
        "milliseconds": {str(shape): round(time, 3) for shape, time in member.times.items()},
        "max_tokens": max_sequence_length(artifact.shapes),
        "long_text": member.settings.long_text,
        "parameters": {name: member.defaults.get(name, parameter.default) for name, parameter in parameters.items()},
        "prompts": {name: prompt.text for name, prompt in artifact.signature.prompts.items()},
        "parity": {
            "tolerance": artifact.tolerance,
            "compiled": max((graph.parity for graph in artifact.graphs if graph.parity is not None), default=None),
            "served": member.parity,
        },
        "compiler": dict(artifact.compiler),
        "versions": {"compiled": dict(artifact.versions), "served": served},
        "limits": member.settings.limits._asdict(),
    }


def describe_worker(settings: Settings, cores: Sequence[int]) -> dict[str, Json]:
    """Describe a worker: version, cores, limits, process.

    Args:
        settings: how the archive is served.
        cores: the cores that this worker computes on, in the host's numbering.
    """
    return {
        "version": settings.version,
        "core_groups": settings.core_groups,
        "mode": settings.mode,
        "cores": list(cores),
        "deadline_ms": settings.deadline_ms,
        "max_batch_ms": settings.max_batch_ms,
        "pid": os.getpid(),
    }
