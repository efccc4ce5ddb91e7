"""The cache of artifacts: a folder for each model, in it one artifact for each key.

The key is a hash of everything that decides what an artifact holds, so work is redone only when
one of these changes. A folder is complete when it has its final name; one that ends in `.partial`
is being made, or was cut off and will be taken up again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import handlers.worker
from handlers.worker.artifact import FORMAT, check_files, read_artifact
from handlers.worker.errors import ArtifactError
from marina.compiler.job import Job

# The fields of a spec that decide what is compiled; the others only say how it is served.
COMPILED_FIELDS = {
    *("name", "version", "task", "source", "engine", "precision", "shapes"),
    *("pooling", "normalize", "heads", "parity", "mode"),
}


def artifact_key(job: Job) -> str:
    """The key of the artifact that a job leads to."""
    fields = job.spec.model_dump(mode="json", include=COMPILED_FIELDS)
    fields["shapes"] = [str(shape) for shape in job.spec.shapes.listed()]
    document = {
        "format": FORMAT,
        "spec": fields,
        "weights": job.weights,
        "examples": job.examples,
        "versions": job.versions,
        "options": job.options,
        "device": job.device,
        "code": _code(),
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def _code() -> str:
    """Hash of the code that compiles and checks, so that a new release does not reuse old work."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(handlers.worker.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def is_complete(folder: Path) -> bool:
    """Whether an artifact is there whole: every file it lists has the recorded size and sha256."""
    try:
        check_files(read_artifact(folder))
    except (ArtifactError, OSError):
        return False
    return True


def discard(folder: Path) -> None:
    """Remove an artifact's folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
