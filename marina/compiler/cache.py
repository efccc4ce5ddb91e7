"""The cache of artifacts: one folder per model, with one artifact per key.

The key is a hash of everything that determines the contents of an artifact, so work is only redone when
one of these changes. A folder is complete once it has its final name. A folder that ends in `.partial`
is being built, or was interrupted and will be resumed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from handlers.worker.archive.artifact import FORMAT, check_files, read_artifact
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import group_cores
from marina.compiler.job import CompileJob

# Versions of the code that decides what artifacts contain: of all, and of tasks that had another; `Engine.version` is
# the third. Raise one to compile its artifacts again. A test fails if such code changes without a decision.
COMPILER_VERSION = 1
TASK_VERSIONS: Mapping[str, int] = {}
# The fields of a spec that always affect what is compiled; most others only affect how it is served.
COMPILED_FIELDS = {
    *("name", "task", "source", "engine", "precision", "shapes"),
    *("pooling", "normalize", "dimensions", "heads", "parity", "mode"),
    *("tokenizer", "preprocess", "fields", "inputs", "outputs"),
}


def artifact_key(job: CompileJob) -> str:
    """The key of the artifact that a job produces."""
    fields = job.spec.model_dump(mode="json", include=COMPILED_FIELDS)
    fields["shapes"] = [str(shape) for shape in job.shapes]
    for name in ("inputs", "outputs"):  # their order counts
        fields[name] = list((fields[name] or {}).items())
    precisions = job.candidates
    if precisions != (
        "f32",
    ):  # lower precisions are judged by their answers, which depend on the model's own parameters
        fields["parameters"] = job.spec.parameters
    if len(precisions) > 1:  # several precisions are also timed, on this number of cores
        fields["cores"] = group_cores(job.spec.core_groups)
    document = {
        "format": FORMAT,
        "precisions": precisions,
        "spec": fields,
        "weights": job.weights,
        "examples": job.examples,
        **({"ranges": job.ranges} if job.ranges else {}),
        "versions": job.versions,
        "options": job.settings,
        "device": job.runs,
        "code": [COMPILER_VERSION, TASK_VERSIONS.get(job.spec.task, 1), job.engine.version],
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def is_complete(folder: Path) -> bool:
    """Whether a complete artifact exists: every file that it lists has the recorded size and sha256."""
    try:
        check_files(read_artifact(folder))
    except (ArtifactError, OSError):
        return False
    return True


def discard(folder: Path) -> None:
    """Remove an artifact's folder if it exists."""
    shutil.rmtree(folder, ignore_errors=True)
