"""Checks whether archives can be served with the packages, cores and memory of this machine."""

from __future__ import annotations

from handlers.worker.engines.packages import installed
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.placement import core_groups
from handlers.worker.placement.groups import lay_out
from handlers.worker.placement.limits import free_memory
from marina.archive.describe import JAVA_BYTES, Archive, describe_archive
from marina.engines import engine_of, engines
from marina.engines.values import CORE_PER_WORKER
from marina.files import is_intact
from marina.findings import Finding, fails, note, ok
from marina.project import Project
from marina.server.room import Need, shortage_of


def open_archives(project: Project, names: list[str]) -> tuple[list[Archive], list[Finding]]:
    """Read archives of the model store; those that cannot be read are reported as findings."""
    paths = [project.model_store / f"{name}.mar" for name in names] or project.archives()
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
                archive = describe_archive(path)
                findings.append(ok(check, f"intact, {path.stat().st_size / 1e6:.1f} MB"))
                if archive.engine in engines():
                    archives.append(archive)
                else:
                    unknown = f"its engine {archive.engine} is not known here; its workers check themselves"
                    findings.append(note(f"{path.stem}: engine", unknown, "install the package that offers it"))
            except (KeyError, ValueError, ArtifactError) as error:
                findings.append(fails(check, f"not of this release: {error}", f"marina archive {path.stem}"))
    return archives, findings


def check_archives(archives: list[Archive], held_bytes: int = 0) -> list[Finding]:
    """Check whether each archive can be served here, and whether all of them fit into memory together.

    Args:
        archives: to be served.
        held_bytes: memory of the running server, which may serve them already.
    """
    findings = [finding for archive in archives for finding in (_versions(archive), _cores(archive))]
    return [*findings, *_together(archives), *([_memory(archives, held_bytes)] if archives else [])]


def _versions(archive: Archive) -> Finding:
    check = f"{archive.name}: versions"
    try:
        for artifact in archive.artifacts:
            engine_of(artifact.engine).check_versions(artifact.versions)
    except ArtifactError as error:
        return fails(check, error.cause, error.fix or "see the packages above")
    other_versions = {
        name: (compiled_version, installed(name))
        for artifact in archive.artifacts
        for name, compiled_version in artifact.versions.items()
        if installed(name) not in (None, compiled_version)
    }
    if other_versions:
        differences = ", ".join(
            f"{name} {installed_version} here, {compiled_version} where it was compiled"
            for name, (compiled_version, installed_version) in other_versions.items()
        )
        return note(check, differences, "workers check their answers on the golden rows before they serve")
    return ok(check, "as where it was compiled")


def _cores(archive: Archive) -> Finding:
    check = f"{archive.name}: cores"
    kind = engine_of(archive.engine).cores
    try:
        cores = kind.usable()
        group_sizes = core_groups(archive.serving["core_groups"]).sizes
    except PlacementError as error:
        return fails(check, error.cause, str(error))
    sizes = group_sizes or (1 if kind.exclusive else len(cores),) * archive.workers
    spanned_cores = max(int(artifact.compiler.get("pipeline_cores", 1)) for artifact in archive.artifacts)
    sizes_text = str(sizes[0]) if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
    summary = f"{len(sizes)} workers with {sizes_text} of {len(cores)} cores each"
    places = lay_out(sizes, cores)
    if kind.exclusive and max(sizes) > 1 and archive.serving["mode"] == CORE_PER_WORKER:
        return fails(check, f"{summary}, of which mode: core-per-worker uses one", "write core_groups as 1,1,1,1")
    if spanned_cores > min(sizes):
        return fails(check, f"{summary}; its graphs span {spanned_cores}", f"give groups of {spanned_cores}")
    if max(sizes) > len(cores) or (kind.exclusive and None in places):
        return fails(check, summary, f"use at most {len(cores)} cores in core_groups, or in NEURONCORE_GROUP_SIZES")
    if None in places:
        return note(check, summary, "some workers share their cores")
    return ok(check, summary)


def _together(archives: list[Archive]) -> list[Finding]:
    """Check that there are enough exclusive cores for all models together, since models cannot share them."""
    try:
        shortage = shortage_of([_need(archive) for archive in archives])
    except PlacementError:  # each archive's own finding says so
        return []
    fix = "serve some of them, or give them fewer cores"
    return [note("all models together", shortage, fix)] if shortage and len(archives) > 1 else []


def _need(archive: Archive) -> Need:
    groups = core_groups(archive.serving["core_groups"]).preferred
    return Need(archive.name, engine_of(archive.engine).cores, groups)


def _memory(archives: list[Archive], held_bytes: int) -> Finding:
    """Check the memory that all workers need with TorchServe: what they take at rest, and at most."""
    resting, most = (
        JAVA_BYTES + sum(archive.memory(torchserve=True, resting=resting) for archive in archives)
        for resting in (True, False)
    )
    free_bytes = free_memory() + held_bytes
    workers = sum(archive.workers for archive in archives)
    summary = f"{workers} workers need at least {resting / 1e9:.1f} GB, {free_bytes / 1e9:.1f} GB are free"
    summary += " with those of the running server" if held_bytes else ""
    fix = "serve fewer models, or give them fewer workers with core_groups"
    if resting > free_bytes:
        return fails("memory", summary, fix)
    if most > free_bytes:
        return note("memory", f"{summary}, and the largest batches take {most / 1e9:.1f} GB", fix)
    return ok("memory", summary)
