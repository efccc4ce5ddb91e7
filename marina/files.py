"""Files written whole or not at all, and by one process at a time."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file; a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def explain(error: OSError) -> str:
    """What the system says of a failure, and of which file."""
    return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on what is to be written; the kernel drops it when the process ends.

    Args:
        path: what is to be written; the lock is a file beside it.
        waiting: called once if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
