"""Processes that measure something without a server."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager


@contextmanager
def spawned_process() -> Iterator[ProcessPoolExecutor]:
    """An executor with one new process, which ends with this one, however this one ends."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent) as process:
        yield process


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent

    def watch() -> None:
        parent.join()
        os._exit(1)  # the executor waits for work that will not come

    threading.Thread(target=watch, daemon=True).start()
