"""What tests set up once for all processes of a run: the first process that needs it makes it."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


class Shared:
    """Folders that the processes of one run of pytest share.

    Args:
        root: of the run.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, name: str, make: Callable[[Path], object]) -> Path:
        """The folder of a name, which `make` fills once; nobody may change it.

        Args:
            name: tells what is in it; equal names have equal contents.
            make: gets the empty folder. If it fails, the next process that needs the folder tries again.
        """
        folder, done = self._root / name, self._root / f"{name}.done"
        self._root.mkdir(exist_ok=True)
        with (self._root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder


def shared_by(factory: pytest.TempPathFactory) -> Shared:
    """The folders of this run: side by side each process has a folder of its own in that of the run."""
    own = factory.getbasetemp()
    return Shared((own.parent if own.name.startswith("popen-") else own) / "shared")
