"""Measures which lines of handlers/ and marina/ a process runs; `measure.py` has every process run this.

It needs no environment variable, since Marina hands few on to TorchServe. What is measured is saved each second, since
TorchServe kills its workers, and Ray its actors.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

from coverage import Coverage
from coverage.exceptions import CoverageException

SAVE_S = 1.0


def start(settings: str) -> None:
    """Measure this process, until it ends.

    Args:
        settings: the file of coverage's settings.
    """
    measured = Coverage(config_file=settings, auto_data=True)
    measured.start()
    ended = threading.Event()

    def save_often() -> None:
        while not ended.wait(SAVE_S):
            # a disk may be full, as some tests want it
            with contextlib.suppress(CoverageException, OSError):
                measured.save()

    saver = threading.Thread(target=save_often, name="coverage", daemon=True)
    saver.start()

    def end() -> None:
        ended.set()
        saver.join()

    atexit.register(end)  # after coverage's, so it runs before it: two threads never save at once
    os.register_at_fork(after_in_child=lambda: atexit.unregister(end))
    for name in ("execv", "execve"):
        setattr(os, name, _saving(measured, getattr(os, name)))


def _saving(measured: Coverage, execute: Callable[..., Any]) -> Callable[..., Any]:
    """A program that replaces this process ends it without any clean-up."""

    def save_and_execute(*arguments: Any) -> Any:
        measured.save()
        return execute(*arguments)

    return save_and_execute
