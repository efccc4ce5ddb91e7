"""Reads an archive without serving it; needs no packages beyond Python's standard library."""

from __future__ import annotations

import hashlib
import json
import posixpath
import zipfile
from dataclasses import replace
from pathlib import Path

from handlers.worker.archive.artifact import (
    ARTIFACT_FILE,
    ARTIFACT_FOLDER,
    CONFIG_FILE,
    FORMAT,
    MANIFEST,
    REMEDY,
    Artifact,
    artifact_from,
)
from handlers.worker.archive.contents import BUNDLE_FILE, Contents, contents_of
from handlers.worker.errors import ArtifactError


def read_archive(path: Path | str) -> Artifact:
    """Read and verify an archive with one model.

    Every file of the artifact is compared with its recorded size and sha256.

    Args:
        path: Path of the archive (.mar).

    Returns:
        A description of the artifact: task, engine, precision, shapes, labels, prompts and package versions.

    Raises:
        ArtifactError: The file is not an archive of this format, it is damaged, or it is a bundle.
        OSError: The file cannot be read.
    """
    artifacts = read_artifacts(path)
    if len(artifacts) > 1:
        raise ArtifactError(f"{path} is a bundle of {', '.join(artifacts)}", "read_artifacts reads all of them")
    return next(iter(artifacts.values()))


def read_artifacts(path: Path | str) -> dict[str, Artifact]:
    """Read and verify an archive, which may be a bundle.

    Args:
        path: Path of the archive (.mar).

    Returns:
        The description of each model's artifact by the name of the model, as from `read_archive`.

    Raises:
        ArtifactError: The file is not an archive of this format, or it is damaged.
        OSError: The file cannot be read.
    """
    artifacts = {}
    try:
        with zipfile.ZipFile(path) as archive:
            contents = _contents(archive)
            for name, subfolder in contents.folders.items():
                folder = Path(ARTIFACT_FOLDER) / subfolder
                fields = json.loads(archive.read(f"{folder}/{ARTIFACT_FILE}"))
                if not isinstance(fields, dict) or fields.get("format") != FORMAT:
                    raise ArtifactError(f"{path} is not of artifact format {FORMAT}", REMEDY)
                artifacts[name] = replace(artifact_from(fields, folder), stored=contents.stored[name])
                _check_recorded(archive, artifacts[name])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ArtifactError(f"{path} is not an archive of Marina, or is damaged: {error}", REMEDY) from None
    return artifacts


def _contents(archive: zipfile.ZipFile) -> Contents:
    bundle = f"{ARTIFACT_FOLDER}/{BUNDLE_FILE}" in archive.namelist()
    document = json.loads(archive.read(f"{ARTIFACT_FOLDER}/{BUNDLE_FILE if bundle else ARTIFACT_FILE}"))
    return contents_of(document, bundle)


def version_of(path: Path) -> str:
    """The version of an archive, as TorchServe reads it from the manifest; "1.0" if it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return str(json.loads(archive.read(MANIFEST))["model"].get("modelVersion") or "1.0")
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError):
        return "1.0"


def placement_of(path: Path) -> tuple[str, str | None]:
    """The engine of an archive, and its core groups in the format of NEURONCORE_GROUP_SIZES or None; checks no files.

    Raises:
        OSError, KeyError, ValueError: it is not an archive of Marina.
    """
    import yaml

    try:
        with zipfile.ZipFile(path) as archive:
            engine = _contents(archive).engine
            groups = yaml.safe_load(archive.read(CONFIG_FILE))["handler"]["core_groups"]
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from None
    return engine, None if groups is None else str(groups)


def fingerprint_of(path: Path) -> str | None:
    """The fingerprint of an archive's contents, as stored by `pack`; None if the archive cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment.decode(errors="replace")
    except (OSError, zipfile.BadZipFile):
        return None


def _check_recorded(archive: zipfile.ZipFile, artifact: Artifact) -> None:
    """Compare every file with its recorded size and hash; ArtifactError names the first one that differs."""
    for name, entry in artifact.files.items():
        digest, size = hashlib.sha256(), 0
        with archive.open(posixpath.normpath(str(artifact.path(name)))) as content:
            while block := content.read(1 << 20):
                digest.update(block)
                size += len(block)
        if (size, digest.hexdigest()) != (entry["bytes"], entry["sha256"]):
            raise ArtifactError(f"{name} is not the file that was recorded, by its size or its sha256", REMEDY)
