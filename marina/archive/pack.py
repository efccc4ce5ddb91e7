"""Packs an artifact into a TorchServe archive (.mar).

torch-model-archiver is not used, because it stages files in a shared temporary folder and writes
the current time into the manifest. Layout of an archive:

    MAR-INF/MANIFEST.json     in the format of torch-model-archiver
    model-config.yaml         settings for TorchServe and the worker
    <task>.py                 the handler; bundle.py for a bundle
    handlers/                 what the handler imports
    artifact/                 the artifact; for a bundle, a folder with the artifact of each member, and bundle.json
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

import handlers
from handlers.worker.archive.artifact import ARTIFACT_FILE, ARTIFACT_FOLDER, CONFIG_FILE, MANIFEST
from handlers.worker.archive.contents import BUNDLE_FILE
from handlers.worker.engines import engine_module
from handlers.worker.tasks import TASKS
from marina.archive.read import fingerprint_of
from marina.files import is_intact, locked, replacing
from marina.spec import Spec
from marina.spec.sections import WorkerServing
from marina.spec.served import ArchiveSpec

# TorchServe reads the name and the version; the other fields are those of torch-model-archiver.
# The time is fixed, so that equal content gives equal archives.
CREATED_ON = "01/01/1980 00:00:00"
ARCHIVER_VERSION = "0.12.0"
# TorchServe drops older requests without any answer; while a worker that has died starts again, they rather wait
RESTART_MS = 25_000
VERSION_DIGITS = 12  # of the hash of the contents, where the spec names no version


class Packed(NamedTuple):
    """The result of `pack`: the archive, and whether it existed already."""

    path: Path
    reused: bool


class Parts(NamedTuple):
    """The parts of an archive.

    Attributes:
        served: name, version and core groups.
        serving: how it is served.
        models: the specs of its models.
        handler: the file of `handlers/` that is its entry point.
        files: the contents of its artifact folder, by names in that folder.
    """

    served: ArchiveSpec
    serving: WorkerServing
    models: Sequence[Spec]
    handler: str
    files: Mapping[str, Path | bytes]


def pack(spec: Spec, artifact: Path, model_store: Path) -> Packed:
    """Write `model_store/<name>.mar` atomically.

    Equal artifacts, settings and handlers give equal archives, byte for byte.
    """
    return write_archive(parts_of(spec, artifact), model_store, artifact.parent)


def parts_of(spec: Spec, artifact: Path) -> Parts:
    """The parts of an archive with one artifact."""
    files = {str(path.relative_to(artifact)): path for path in files_of(artifact)}
    return Parts(spec, spec.serving, [spec], TASKS[spec.task].entry_file, files)


def files_of(artifact: Path) -> list[Path]:
    """The files of an artifact, in order."""
    return sorted(path for path in artifact.rglob("*") if path.is_file())


def write_archive(parts: Parts, model_store: Path, workdir: Path) -> Packed:
    """Write an archive atomically, unless it exists with the same contents; the lock is a file in `workdir`."""
    name = parts.served.name
    contents = _contents(parts, parts.served.version or "")
    if not parts.served.version:
        contents = _contents(parts, _fingerprint(contents).decode().split()[1][:VERSION_DIGITS])
    fingerprint = _fingerprint(contents)
    path = model_store / f"{name}.mar"
    model_store.mkdir(parents=True, exist_ok=True)
    with locked(workdir / "archive.lock"):
        if fingerprint_of(path) == fingerprint.decode() and is_intact(path):
            return Packed(path, reused=True)
        with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for file_name, content in contents.items():
                _add(archive, file_name, content)
            archive.comment = fingerprint
    return Packed(path, reused=False)


def model_config(parts: Parts, version: str) -> dict[str, object]:
    """The contents of model-config.yaml.

    If an archive has this file, TorchServe takes both timeouts from it, and uses 120 s for one that is
    missing; so both are set. The two worker counts must be equal, because TorchServe starts minWorkers
    and never scales by itself.
    """
    serving = parts.serving
    return {
        "minWorkers": parts.served.workers,
        "maxWorkers": parts.served.workers,
        "batchSize": serving.batch_size,
        "maxBatchDelay": serving.batch_delay_ms,
        "responseTimeout": serving.response_timeout_s,
        "startupTimeout": serving.startup_timeout_s,
        "jobQueueSize": serving.queue,
        "clientTimeoutInMills": serving.deadline_ms + RESTART_MS,
        "deviceType": "cpu",
        "handler": {
            "version": version,
            "core_groups": parts.served.core_groups,
            "mode": parts.models[0].mode,
            "max_batch_ms": serving.max_batch_ms,
            "deadline_ms": serving.deadline_ms,
            "server_timing": serving.server_timing,
            "members": {spec.name: _member(spec) for spec in parts.models},
        },
    }


def _member(spec: Spec) -> dict[str, object]:
    serving = spec.serving
    return {
        "long_text": spec.long_text,
        "max_instances": serving.max_instances,
        "max_characters": serving.max_characters,
        "max_windows": serving.max_windows,
        "max_body_bytes": serving.max_body_bytes,
        "max_tokens": serving.max_tokens,
        "parameters": spec.parameters,
    }


def _contents(parts: Parts, version: str) -> dict[str, Path | bytes]:
    """Every file of the archive by name, in the order of the archive."""
    package = Path(handlers.__file__).parent
    sources = [package / "__init__.py", *sorted((package / "worker").rglob("*.py"))]
    contents: dict[str, Path | bytes] = {
        MANIFEST: json.dumps(_manifest(parts, version), indent=2).encode(),
        CONFIG_FILE: yaml.safe_dump(model_config(parts, version), sort_keys=False).encode(),
        parts.handler: package / parts.handler,
    }
    contents.update({f"handlers/{path.relative_to(package)}": path for path in sources})
    engine = parts.models[0].engine
    runtime = Path(str(getattr(engine_module(engine), "__file__", "")))
    if not runtime.is_relative_to(package):  # the engine comes with a package of its own
        contents[f"handlers/worker/engines/{engine}.py"] = runtime
    contents.update({f"{ARTIFACT_FOLDER}/{name}": content for name, content in parts.files.items()})
    return contents


def _manifest(parts: Parts, version: str) -> dict[str, object]:
    return {
        "createdOn": CREATED_ON,
        "runtime": "python",
        "model": {
            "modelName": parts.served.name,
            "handler": parts.handler,
            "modelVersion": version,
            "configFile": CONFIG_FILE,
        },
        "archiverVersion": ARCHIVER_VERSION,
    }


def _fingerprint(contents: dict[str, Path | bytes]) -> bytes:
    """A hash of the archive's contents; an artifact.json stands for its artifact, as it lists the files' hashes."""
    digest = hashlib.sha256()
    for name, content in contents.items():
        if not name.startswith(f"{ARTIFACT_FOLDER}/") or name.endswith((f"/{ARTIFACT_FILE}", f"/{BUNDLE_FILE}")):
            data = content if isinstance(content, bytes) else content.read_bytes()
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return f"marina {digest.hexdigest()}".encode()


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> None:
    """Add one file, uncompressed, with a fixed time and mode."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    if isinstance(content, bytes):
        archive.writestr(entry, content)
        return
    entry.file_size = content.stat().st_size
    with archive.open(entry, "w") as target, content.open("rb") as source:
        shutil.copyfileobj(source, target, 1 << 20)
