"""Writes files atomically and by one process at a time, checks whether they are damaged, and names them in errors."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

POLL_S = 0.1


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file atomically: a reader sees either the old content or the new."""
    write_text(path, json.dumps(document, indent=1) + "\n")


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if the file is missing or holds no object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write_text(path: Path, text: str) -> None:
    """Write a file of text atomically: a reader sees either the old content or the new."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path, several: bool = False) -> Iterator[Path]:
    """A path to write to, in the same folder; it becomes the file when the block ends, and nothing if it fails.

    Args:
        path: the file.
        several: whether several processes may write it at the same time. The partial file of a killed
            process is then never overwritten.
    """
    partial = path.with_name(f".{path.name}{f'.{uuid.uuid4().hex[:8]}' if several else ''}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def is_intact(path: Path) -> bool:
    """Whether a file is a zip file, as archives and TorchScript are, of which every part matches its checksum."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def explain(error: OSError) -> str:
    """The system's message for an error, with the name of the file if there is one."""
    return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Within it, an OSError that names no file names the path, for example when the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None


@contextmanager
def locked(lock_file: Path, wait_s: float = math.inf, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock; the kernel releases it when the process ends, however it ends.

    Args:
        lock_file: the file that stands for the lock; it is made if it is missing, and stays.
        wait_s: seconds to wait for another process to release it.
        waiting: called once if another process holds it.

    Raises:
        BlockingIOError: another process still holds it.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as lock:
        deadline = time.monotonic() + wait_s
        if not _try_lock(lock):
            waiting()
            while not _try_lock(lock):
                if time.monotonic() >= deadline:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(lock_file))
                time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
        yield


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
