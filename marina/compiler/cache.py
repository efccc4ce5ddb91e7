"""The cache of artifacts: a folder for each model, in it one artifact for each key.

The key is a hash of everything that decides what an artifact holds, so work is redone only when
one of these changes. A folder is complete when it has its final name; one that ends in `.partial`
is being made, or was cut off and will be taken up again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import handlers.worker
from handlers.worker.artifact import ARTIFACT_FILE, FORMAT, read_json
from handlers.worker.errors import ArtifactError
from marina.spec import Spec

COMPILED_FIELDS = {"name", "version", "task", "source", "engine", "precision", "shapes", "pooling", "normalize"}
CHECKED_FIELDS = {"examples", "parity"}


def artifact_key(spec: Spec, weights: str, examples: str, versions: dict[str, str]) -> str:
    """The key of the artifact that a spec leads to.

    Args:
        spec: the model.
        weights: fingerprint of the source's files.
        examples: hash of the texts that it is checked on.
        versions: versions of the packages that compile it.
    """
    fields = spec.model_dump(mode="json", include=COMPILED_FIELDS | CHECKED_FIELDS)
    fields["shapes"] = [str(shape) for shape in spec.shapes.listed()]
    document = {
        "format": FORMAT,
        "spec": fields,
        "weights": weights,
        "examples": examples,
        "versions": versions,
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


@contextmanager
def exclusive(path: Path, waiting: Any) -> Iterator[None]:
    """Hold the lock on one artifact; the kernel drops it when the process ends.

    Args:
        path: the artifact's folder.
        waiting: called once if another process holds the lock.
    """
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_complete(folder: Path) -> bool:
    """Whether an artifact is there whole: every file it lists has the recorded size."""
    try:
        files = read_json(folder / ARTIFACT_FILE)["files"]
        return all((folder / name).stat().st_size == entry["bytes"] for name, entry in files.items())
    except (ArtifactError, OSError, KeyError, TypeError):
        return False


def discard(folder: Path) -> None:
    """Remove an artifact's folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
