"""Packs an artifact into a TorchServe archive (.mar).

The archive is written here and not by torch-model-archiver, which stages files in a shared
temporary folder and stamps the time of day into the manifest. Its layout:

    MAR-INF/MANIFEST.json     as torch-model-archiver writes it
    model-config.yaml         how TorchServe and the worker serve it
    <task>.py                 the handler
    handlers/                 what the handler imports
    artifact/                 the artifact
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

import yaml

import handlers
from handlers.worker.engines import engine_module
from handlers.worker.hosts.torchserve import ARTIFACT_FOLDER
from handlers.worker.tasks import TASKS
from marina.files import exclusive
from marina.spec import Spec

CONFIG_FILE = "model-config.yaml"
# TorchServe reads the name and the version; torch-model-archiver writes the rest. The time is
# fixed so that equal content makes equal archives.
CREATED_ON = "01/01/1980 00:00:00"
ARCHIVER_VERSION = "0.12.0"
MANIFEST = "MAR-INF/MANIFEST.json"


class Packed(NamedTuple):
    """The result of `pack`: the archive, and whether it was there already."""

    path: Path
    reused: bool


def pack(spec: Spec, artifact: Path, model_store: Path) -> Packed:
    """Write `model_store/<name>.mar`, whole or not at all.

    Equal artifacts, settings and handlers make equal archives, byte for byte.
    """
    contents = _contents(spec, artifact)
    fingerprint = _fingerprint(contents)
    path = model_store / f"{spec.name}.mar"
    partial = model_store / f".{spec.name}.partial"
    model_store.mkdir(parents=True, exist_ok=True)
    with exclusive(artifact.parent / "archive", waiting=lambda: None):
        if fingerprint_of(path) == fingerprint.decode() and is_intact(path):
            return Packed(path, reused=True)
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
                for name, content in contents.items():
                    _add(archive, name, content)
                archive.comment = fingerprint
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return Packed(path, reused=False)


def is_intact(path: Path) -> bool:
    """Whether every file in an archive has the checksum that it was written with."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def model_config(spec: Spec) -> dict[str, object]:
    """What model-config.yaml says.

    With any such file TorchServe takes both timeouts from it, 120 s where it names none, so it
    names both. Worker counts must be equal: TorchServe starts minWorkers and never scales by itself.
    """
    serving = spec.serving
    return {
        "minWorkers": spec.workers,
        "maxWorkers": spec.workers,
        "batchSize": serving.batch_size,
        "maxBatchDelay": serving.batch_delay_ms,
        "responseTimeout": serving.response_timeout_s,
        "startupTimeout": serving.startup_timeout_s,
        "jobQueueSize": serving.queue_size,
        "deviceType": "cpu",
        "handler": {
            "version": spec.version,
            "long_text": spec.long_text,
            "core_groups": spec.core_groups,
            "mode": spec.mode,
            "max_instances": serving.max_instances,
            "max_characters": serving.max_characters,
            "max_windows": serving.max_windows,
            "max_body_bytes": serving.max_body_bytes,
            "parameters": spec.parameters,
        },
    }


def _contents(spec: Spec, artifact: Path) -> dict[str, Path | bytes]:
    """Every file of the archive by its name, in the archive's order."""
    package = Path(handlers.__file__).parent
    handler = TASKS[spec.task].entry_file
    sources = [package / "__init__.py", *sorted((package / "worker").rglob("*.py"))]
    contents: dict[str, Path | bytes] = {
        MANIFEST: json.dumps(_manifest(spec, handler), indent=2).encode(),
        CONFIG_FILE: yaml.safe_dump(model_config(spec), sort_keys=False).encode(),
        handler: package / handler,
    }
    contents.update({f"handlers/{path.relative_to(package)}": path for path in sources})
    runtime = Path(str(getattr(engine_module(spec.engine), "__file__", "")))
    if not runtime.is_relative_to(package):  # of an engine that comes with a package of its own
        contents[f"handlers/worker/engines/{spec.engine}.py"] = runtime
    files = sorted(path for path in artifact.rglob("*") if path.is_file())
    contents.update({f"{ARTIFACT_FOLDER}/{path.relative_to(artifact)}": path for path in files})
    return contents


def _manifest(spec: Spec, handler: str) -> dict[str, object]:
    return {
        "createdOn": CREATED_ON,
        "runtime": "python",
        "model": {
            "modelName": spec.name,
            "handler": handler,
            "modelVersion": spec.version,
            "configFile": CONFIG_FILE,
        },
        "archiverVersion": ARCHIVER_VERSION,
    }


def _fingerprint(contents: dict[str, Path | bytes]) -> bytes:
    """A hash of what the archive holds; the artifact counts by its artifact.json, which lists hashes."""
    digest = hashlib.sha256()
    for name, content in contents.items():
        if not name.startswith(f"{ARTIFACT_FOLDER}/") or name == f"{ARTIFACT_FOLDER}/artifact.json":
            data = content if isinstance(content, bytes) else content.read_bytes()
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return f"marina {digest.hexdigest()}".encode()


def fingerprint_of(path: Path) -> str | None:
    """The fingerprint of an archive's content, which `pack` left in it; None where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment.decode(errors="replace")
    except (OSError, zipfile.BadZipFile):
        return None


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> None:
    """Add one file, stored, with a fixed time and mode."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    if isinstance(content, bytes):
        archive.writestr(entry, content)
        return
    entry.file_size = content.stat().st_size
    with archive.open(entry, "w") as target, content.open("rb") as source:
        shutil.copyfileobj(source, target, 1 << 20)
