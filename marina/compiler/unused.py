"""Artifacts that nothing needs any more: no archive of the model store holds them, and no spec would use them again."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from handlers.worker.archive.artifact import ARTIFACT_FILE, ARTIFACT_FOLDER
from marina.compiler.cache import artifact_key
from marina.compiler.job import prepare_job
from marina.errors import MarinaError
from marina.project import Project
from marina.spec import Spec


class UnusedArtifact(NamedTuple):
    """An artifact that nothing needs: its model, its folder, and its size in bytes."""

    model: str
    folder: Path
    size: int


def unused_artifacts(
    project: Project, specs: Mapping[str, Spec], with_shapes: Callable[[Spec], Spec]
) -> list[UnusedArtifact]:
    """The artifacts of a project that neither its archives, its specs nor its calibrations need.

    Unfinished artifacts are left out, since an interrupted compilation goes on with them.

    Args:
        project: the project.
        specs: its specs by name. If what one would use cannot be told, all artifacts of its model are kept.
        with_shapes: gives a spec the shapes that were chosen for it.
    """
    packed = {content for archive in project.archives() for content in _descriptions(archive)}
    current: dict[str, str | None] = {}
    for name, spec in specs.items():
        try:
            current[name] = artifact_key(prepare_job(with_shapes(spec), project.root))
        except MarinaError:
            current[name] = None
    unused = []
    for description in sorted(project.artifacts.glob(f"*/*/{ARTIFACT_FILE}")):
        folder, model = description.parent, description.parent.parent.name
        calibrated = any(folder.parent.glob(f"{folder.name}.*.calibration.json"))
        if folder.suffix == ".partial" or calibrated or description.read_bytes() in packed:
            continue
        if model in current and current[model] in (None, folder.name):
            continue
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        unused.append(UnusedArtifact(model, folder, size))
    return unused


def _descriptions(archive: Path) -> Iterator[bytes]:
    """The contents of every `artifact.json` in an archive; none if it cannot be read."""
    try:
        with zipfile.ZipFile(archive) as file:
            names = [name for name in file.namelist() if name.startswith(f"{ARTIFACT_FOLDER}/")]
            yield from (file.read(name) for name in names if name.endswith(f"/{ARTIFACT_FILE}"))
    except (OSError, zipfile.BadZipFile):
        return
