"""Unpacks archives. They hold code, so they go into folders that nobody else can write to."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from handlers.worker.archive.artifact import ARTIFACT_FOLDER, CONFIG_FILE, MANIFEST
from handlers.worker.errors import ArtifactError

PARTIAL = ".partial"  # ends the names of folders that are incomplete or damaged


def private_folder(name: str) -> Path:
    """A folder in the temporary directory that only this user can enter, created if it is missing.

    Raises:
        ArtifactError: another user has made the folder, or other users may enter it.
    """
    path = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()  # a link is not followed
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ArtifactError(
            f"{path} is not a folder that only the user {os.getuid()} can enter",
            "remove it, or set TMPDIR to a folder of your own",
        )
    return path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the artifact and the settings of an archive into a folder, unless they are there, undamaged.

    One process at a time unpacks; it removes the leftovers of killed processes beside the folder.

    Raises:
        ArtifactError: the file is not an archive of Marina.
        OSError: the archive cannot be read, or the disk is full.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".unpacking.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in folder.parent.glob(f".*{PARTIAL}"):
            shutil.rmtree(leftover)
        try:
            _unpack_missing(archive, folder)
        except (zipfile.BadZipFile, KeyError) as error:
            raise ArtifactError(
                f"{archive} is not an archive of Marina, or is damaged: {error}", "pack a new archive"
            ) from None


def _unpack_missing(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        entries = [file.getinfo(CONFIG_FILE), file.getinfo(MANIFEST)]
        entries += [entry for entry in file.infolist() if entry.filename.startswith(f"{ARTIFACT_FOLDER}/")]
        if all(_is_unpacked(entry, folder) for entry in entries):
            return
        partial = folder.with_name(f".{folder.name}{PARTIAL}")
        try:
            file.extractall(partial, entries)
        except OSError as error:
            if error.filename or error.errno is None:
                raise
            raise OSError(error.errno, os.strerror(error.errno), str(partial)) from None
    damaged = folder.with_name(f".{folder.name}.damaged{PARTIAL}")
    with suppress(FileNotFoundError):
        folder.replace(damaged)
    partial.replace(folder)
    shutil.rmtree(damaged, ignore_errors=True)


def _is_unpacked(entry: zipfile.ZipInfo, folder: Path) -> bool:
    """Whether a file of an archive is in a folder, with its size and its checksum."""
    path = folder / entry.filename
    if entry.is_dir():
        return path.is_dir()
    if not path.is_file() or path.stat().st_size != entry.file_size:
        return False
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum == entry.CRC
