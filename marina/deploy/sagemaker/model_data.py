"""Writes model.tar.gz, as SageMaker's PyTorch containers unpack it into /opt/ml/model.

    of an archive as it is      of the four functions
    MAR-INF/MANIFEST.json       model-config.yaml
    model-config.yaml           artifact/
    <task>.py, handlers/        code/inference.py, code/handlers/
    artifact/                   code/requirements.txt
    code/requirements.txt

The container starts TorchServe on the folder. With a MANIFEST.json, TorchServe takes the archive's own handler and its
model-config.yaml; without, it takes the container's handler, which calls the functions in code/inference.py.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from handlers.worker.artifact import ARTIFACT_FOLDER, CONFIG_FILE
from marina.archive.describe import Archive

REQUIREMENTS = "code/requirements.txt"
FAST = 1  # level of gzip: weights hardly shrink
# the container has these, in the versions that its own programs need
OF_THE_IMAGE = ("numpy", "packaging")


def requirements_of(archive: Archive) -> str:
    """The requirements.txt that the container installs before TorchServe starts."""
    return "".join(f"{name}=={version}\n" for name, version in added_packages(archive).items())


def added_packages(archive: Archive) -> dict[str, str]:
    """The packages with versions that AWS's image lacks."""
    return {name: version for name, version in archive.pins().items() if name not in OF_THE_IMAGE}


def write_unpacked(archive: Archive, _: Path, path: Path) -> None:
    """Write the archive's files, and its requirements."""
    with zipfile.ZipFile(archive.path) as source:
        names = {name: name for name in source.namelist()}
        _write(path, source, names, {REQUIREMENTS: requirements_of(archive).encode()})


def write_functions(archive: Archive, inference: Path, path: Path) -> None:
    """Write the archive's artifact and worker, and the file with the functions."""
    with zipfile.ZipFile(archive.path) as source:
        names = {
            name: f"code/{name}" if name.startswith("handlers/") else name
            for name in source.namelist()
            if name.startswith(("handlers/", f"{ARTIFACT_FOLDER}/")) or name == CONFIG_FILE
        }
        others = {"code/inference.py": inference.read_bytes(), REQUIREMENTS: requirements_of(archive).encode()}
        _write(path, source, names, others)


def _write(path: Path, source: zipfile.ZipFile, names: Mapping[str, str], others: Mapping[str, bytes]) -> None:
    """Write files of a zip file under new names, and other files; equal contents give equal bytes."""
    files = sorted([*((new, old) for old, new in names.items()), *((new, "") for new in others)])
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", FAST, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for new, old in files:
            entry = tarfile.TarInfo(new)
            entry.mode = 0o644
            entry.size = source.getinfo(old).file_size if old else len(others[new])
            with source.open(old) if old else io.BytesIO(others[new]) as content:
                target.addfile(entry, content)
