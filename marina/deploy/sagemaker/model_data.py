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

from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE
from marina.archive.describe import Archive

REQUIREMENTS = "code/requirements.txt"
GZIP_LEVEL = 1  # the fastest: weights hardly shrink
# packages of the container, in the versions that its own programs need
IMAGE_PACKAGES = ("numpy", "packaging")


def added_packages(archive: Archive) -> dict[str, str]:
    """The packages with versions that AWS's image lacks."""
    return {name: version for name, version in archive.pins().items() if name not in IMAGE_PACKAGES}


def write_model_data(archive: Archive, inference: Path | None, path: Path) -> None:
    """Write the archive's files, or with the file of the four functions its artifact and worker; and its requirements.

    The container installs the requirements before TorchServe starts.
    """
    requirements = "".join(f"{name}=={version}\n" for name, version in added_packages(archive).items())
    extra_files = {REQUIREMENTS: requirements.encode()}
    with zipfile.ZipFile(archive.path) as source:
        names = {name: name for name in source.namelist()}
        if inference:
            extra_files["code/inference.py"] = inference.read_bytes()
            names = {
                name: f"code/{name}" if name.startswith("handlers/") else name
                for name in names
                if name.startswith(("handlers/", f"{ARTIFACT_FOLDER}/")) or name == CONFIG_FILE
            }
        _write(path, source, names, extra_files)


def _write(path: Path, source: zipfile.ZipFile, names: Mapping[str, str], extra_files: Mapping[str, bytes]) -> None:
    """Write files of a zip file under new names, and extra files; equal contents give equal bytes."""
    files = sorted(
        [
            *((target_name, source_name) for source_name, target_name in names.items()),
            *((target_name, "") for target_name in extra_files),
        ]
    )
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", GZIP_LEVEL, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for target_name, source_name in files:
            entry = tarfile.TarInfo(target_name)
            entry.mode = 0o644
            entry.size = source.getinfo(source_name).file_size if source_name else len(extra_files[target_name])
            with source.open(source_name) if source_name else io.BytesIO(extra_files[target_name]) as content:
                target.addfile(entry, content)
