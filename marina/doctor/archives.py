"""Checks of archives: can each be served here, with the packages, cores and memory of this machine."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from handlers.worker.artifact import ARTIFACT_FILE, FORMAT, Artifact, artifact_from
from handlers.worker.engines.packages import installed
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.hosts.torchserve import ARTIFACT_FOLDER
from handlers.worker.placement import Cores, core_groups
from handlers.worker.placement.groups import possible_groups
from handlers.worker.placement.limits import free_memory
from marina.archive import CONFIG_FILE, is_intact
from marina.engines import engine_of, engines
from marina.engines.base import CORE_PER_WORKER
from marina.findings import Finding, fails, note, ok
from marina.project import Project

# of a worker that has loaded nothing, as measured in docs/benchmarks.md, and of TorchServe's Java
WORKER_BYTES = 250_000_000
JAVA_BYTES = 300_000_000


class Archive(NamedTuple):
    """What an archive says of itself."""

    name: str
    artifact: Artifact
    serving: dict[str, Any]  # the `handler:` section
    workers: int
    size: int  # bytes


def open_archives(project: Project, names: list[str]) -> tuple[list[Archive], list[Finding]]:
    """Read archives of the model store; those that cannot be read are findings."""
    paths = [project.model_store / f"{name}.mar" for name in names] or sorted(project.model_store.glob("*.mar"))
    archives, findings = [], []
    if not paths:
        findings.append(note("archives", f"none in {project.model_store}", "make some with marina archive"))
    for path in paths:
        check = f"{path.stem}: archive"
        if path.stem.lower().startswith("token"):
            fix = "TorchServe takes /models/token... for its token API; give the model another name"
            findings.append(fails(check, "its name starts with token", fix))
        elif not path.is_file():
            findings.append(fails(check, f"{path} does not exist", f"marina archive {path.stem}"))
        elif not is_intact(path):
            findings.append(fails(check, "damaged", f"marina archive {path.stem}"))
        else:
            try:
                archive = _read(path)
                findings.append(ok(check, f"intact, {path.stat().st_size / 1e6:.1f} MB"))
                if archive.artifact.engine in engines():
                    archives.append(archive)
                else:
                    unknown = f"its engine {archive.artifact.engine} is not known here; its workers check themselves"
                    findings.append(note(f"{path.stem}: engine", unknown, "install the package that offers it"))
            except (KeyError, ValueError, ArtifactError) as error:
                findings.append(fails(check, f"not of this release: {error}", f"marina archive {path.stem}"))
    return archives, findings


def check_archives(archives: list[Archive]) -> list[Finding]:
    """Whether each can be served here, and whether they fit into memory together."""
    findings = [finding for archive in archives for finding in (_versions(archive), _cores(archive))]
    return [*findings, *_together(archives), *([_memory(archives)] if archives else [])]


def _read(path: Path) -> Archive:
    with zipfile.ZipFile(path) as file:
        document = json.loads(file.read(f"{ARTIFACT_FOLDER}/{ARTIFACT_FILE}"))
        config = yaml.safe_load(file.read(CONFIG_FILE))
        if document.get("format") != FORMAT:
            raise ArtifactError(f"artifact format {document.get('format')}, this release reads {FORMAT}")
        artifact = artifact_from(document, Path(ARTIFACT_FOLDER))
        _check_recorded(file, artifact)
    return Archive(path.stem, artifact, config["handler"], config["minWorkers"], path.stat().st_size)


def _check_recorded(file: zipfile.ZipFile, artifact: Artifact) -> None:
    """Compare every file of an archive with the size and hash on record; ArtifactError names the one that differs."""
    for name, recorded in artifact.files.items():
        digest, size = hashlib.sha256(), 0
        with file.open(f"{ARTIFACT_FOLDER}/{name}") as content:
            for block in iter(lambda content=content: content.read(1 << 20), b""):  # type: ignore[misc]
                digest.update(block)
                size += len(block)
        if (size, digest.hexdigest()) != (recorded["bytes"], recorded["sha256"]):
            raise ArtifactError(f"{name} is not the file that was recorded, by its size or its sha256")


def _versions(archive: Archive) -> Finding:
    check, artifact = f"{archive.name}: versions", archive.artifact
    try:
        engine_of(artifact.engine).check_versions(artifact.versions)
    except ArtifactError as error:
        return fails(check, error.cause, error.fix or "see the packages above")
    others = {
        name: (wanted, installed(name))
        for name, wanted in artifact.versions.items()
        if installed(name) not in (None, wanted)
    }
    if others:
        found = ", ".join(
            f"{name} {here} here, {wanted} where it was compiled" for name, (wanted, here) in others.items()
        )
        return note(check, found, "workers check their answers on the golden rows before they serve")
    return ok(check, "as where it was compiled")


def _cores(archive: Archive) -> Finding:
    check = f"{archive.name}: cores"
    kind = engine_of(archive.artifact.engine).cores
    try:
        cores = kind.usable()
        workers, size = _groups(archive, 1 if kind.exclusive else len(cores))
    except PlacementError as error:
        return fails(check, error.cause, str(error))
    spanned = int(archive.artifact.compiler.get("pipeline_cores", 1))
    found = f"{workers} workers with {size} of {len(cores)} cores each"
    room = _room(cores, size)
    if kind.exclusive and size > 1 and archive.serving["mode"] == CORE_PER_WORKER:
        return fails(check, f"{found}, of which mode: core-per-worker uses one", "write core_groups as 1,1,1,1")
    if spanned > size:
        return fails(check, f"{found}; its graphs span {spanned}", f"give groups of {spanned}")
    if room == 0 or (kind.exclusive and room < workers):
        return fails(check, found, f"ask for at most {len(cores)} cores in core_groups, or in NEURONCORE_GROUP_SIZES")
    if room < workers:
        return note(check, found, "some workers share their cores")
    return ok(check, found)


def _room(cores: Sequence[int], size: int) -> int:
    """How many groups fit side by side."""
    taken: set[int] = set()
    count = 0
    for group in possible_groups(cores, size):
        if not taken & set(group):
            taken |= set(group)
            count += 1
    return count


def _groups(archive: Archive, otherwise: int) -> tuple[int, int]:
    """How many workers an archive has and how many cores each; `otherwise` where it leaves the cores open."""
    sizes = core_groups(archive.serving["core_groups"])
    return (len(sizes), sizes[0]) if sizes else (archive.workers, otherwise)


def _together(archives: list[Archive]) -> list[Finding]:
    """Exclusive cores are not shared, so all models together need as many as there are."""
    sharing: dict[Cores, list[Archive]] = {}
    for archive in archives:
        sharing.setdefault(engine_of(archive.artifact.engine).cores, []).append(archive)
    findings = []
    for kind, own in sharing.items():
        try:
            cores = len(kind.usable()) if kind.exclusive and len(own) > 1 else 0
            need = sum(workers * size for workers, size in (_groups(archive, 1) for archive in own))
        except PlacementError:
            continue
        if cores and need > cores:
            fix = "serve some of them, or give them fewer cores"
            findings.append(note("all models together", f"need {need} of {cores} {kind.name}", fix))
    return findings


def _memory(archives: list[Archive]) -> Finding:
    """What all workers hold at least: every one has its own graphs."""
    need = JAVA_BYTES + sum(archive.workers * (WORKER_BYTES + archive.size) for archive in archives)
    free = free_memory()
    workers = sum(archive.workers for archive in archives)
    found = f"{workers} workers need at least {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
    if need > free:
        return fails("memory", found, "serve fewer models, or give them fewer workers with core_groups")
    return ok("memory", found)
