"""The archives that are served: found in the model store and checked, with copies for a rollback."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from handlers.worker.archive.artifact import MANIFEST, sha256_of
from marina.archive.footprint import read_footprint, write_footprint
from marina.archive.read import fingerprint_of
from marina.errors import ServerError
from marina.files import is_intact, replacing
from marina.project import Project

DRAINING = "draining"  # the version that answers 503 while other versions finish their work


class KeptCopies(NamedTuple):
    """The paths of the copies of the archive that is served, and of the archive before it; they may not exist."""

    current: Path
    previous: Path


def find_archives(project: Project, names: list[str], trusted: str | None = None) -> list[Path]:
    """The archives of the named models, or every archive of the store.

    Args:
        project: project of the model store.
        names: models, each counted once; if empty, all models in the store.
        trusted: file with the sha256 of every archive that may be served, as the command sha256sum writes it; None
            for no such limit.

    Raises:
        ServerError: an archive is missing, damaged or not trusted, or the store is empty.
    """
    requested = [project.model_store / f"{name}.mar" for name in dict.fromkeys(names)]
    archives = requested or project.archives()
    if not archives:
        raise ServerError(f"{project.model_store} has no archives", "make some with marina archive")
    for archive in archives:
        if not archive.is_file():
            raise ServerError(f"{archive} does not exist", f"make it with marina archive {archive.stem}")
        if not is_intact(archive):
            raise ServerError(f"{archive} is damaged", f"make it again with marina archive {archive.stem}")
    if trusted:
        check_trusted(archives, Path(trusted))
    return archives


def keep_copy(project: Project, archive: Path) -> None:
    """Keep a copy of a served archive, and of the archive that was served before it, with their footprints."""
    current, previous = kept_copies(project, archive.stem)
    fingerprint, footprint = fingerprint_of(archive), read_footprint(archive)
    if archive == current or (current.exists() and fingerprint_of(current) == fingerprint):
        if footprint:  # it may have been measured since
            write_footprint(current, fingerprint, footprint)
        return
    for path in (current, previous):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(current) as partial:
        shutil.copyfile(archive, partial)
        if current.exists():
            write_footprint(previous, fingerprint_of(current), read_footprint(current))
            current.replace(previous)
    write_footprint(current, fingerprint, footprint)


def kept_copies(project: Project, name: str) -> KeptCopies:
    """The kept copies of a model's archives."""
    folder = project.run.parent / "versions"
    return KeptCopies(folder / "current" / f"{name}.mar", folder / "previous" / f"{name}.mar")


def put_back(project: Project, archive: Path) -> None:
    """Put a kept archive into the model store, with its footprint."""
    with replacing(project.model_store / archive.name) as partial:
        shutil.copyfile(archive, partial)
    write_footprint(project.model_store / archive.name, fingerprint_of(archive), read_footprint(archive))


@contextmanager
def in_model_store(project: Project, archive: Path) -> Iterator[str]:
    """Have an archive in the model store while it is registered; yields its file name there."""
    if archive.parent == project.model_store:
        yield archive.name
        return
    target = project.model_store / f".{archive.stem}-{os.getpid()}.mar"
    try:
        _link(archive, target)
        yield target.name
    finally:
        target.unlink(missing_ok=True)


def write_draining(path: Path) -> None:
    """Write an archive without code, and thus without workers: TorchServe answers 503 in its place."""
    model = {"modelName": DRAINING, "handler": "none.py", "modelVersion": DRAINING}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, json.dumps({"runtime": "python", "model": model}))


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that cannot be done."""
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def check_trusted(archives: list[Path], trusted: Path) -> None:
    """Refuse archives that are not in a list, as the command sha256sum writes it; ServerError names the first."""
    try:
        lines = trusted.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ServerError(f"{trusted} with the trusted archives cannot be read: {error}") from None
    trusted_hashes = {line.split()[0].lower() for line in lines if line.strip()}
    for archive in archives:
        if sha256_of(archive) not in trusted_hashes:
            raise ServerError(
                f"{archive} is not among the trusted archives of {trusted}",
                "an archive is code; if you made this one, add the line of sha256sum to that file",
            )
