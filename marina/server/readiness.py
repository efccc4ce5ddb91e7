"""Waits until models are READY, and finds out why a worker did not start."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from handlers.worker.adapter import FAILURE_MARK
from marina.errors import ServerError
from marina.server.management import Management

POLL_S = 0.2
# After a line like this a worker is gone; what it raised stands above.
DIED = "Backend worker process died."
RAISED = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*")


def wait_until_ready(
    management: Management, names: list[str], log: Path, deadline: float, alive: Callable[[], bool]
) -> None:
    """Wait until every worker of every model is READY.

    Args:
        management: of the server that was told to register them.
        names: the models.
        log: the file that workers' output goes to.
        deadline: when to give up, on the clock of `time.monotonic`.
        alive: says whether the server still runs.

    Raises:
        ServerError: a worker failed, with its own reason, or the deadline passed.
    """
    waiting = list(names)
    while waiting:
        for name in list(waiting):
            status = management.status(name)
            if status.workers and status.ready >= status.workers:
                waiting.remove(name)
                continue
            reason = failure(log, name)
            if reason:
                raise ServerError(f"model {name} cannot be served: {reason}. Its log: {log}")
        if not alive():
            raise ServerError(f"TorchServe ended while models were starting. Its log: {log.parent}")
        if waiting and time.monotonic() > deadline:
            raise ServerError(f"model {waiting[0]} is not READY in the time allowed; see {log}, or raise --timeout")
        time.sleep(POLL_S if waiting else 0)


def failure(log: Path, name: str) -> str | None:
    """Why a worker of a model did not start, in its own words; None if no worker failed."""
    lines = _lines(log, name)
    for line in reversed(lines):
        if FAILURE_MARK in line:
            return line.split(FAILURE_MARK, 1)[1].strip()
    if not any(DIED in line for line in lines):
        return None
    raised = [line for line in lines if RAISED.match(line)]
    return raised[-1] if raised else "its worker ended without a reason"


def _lines(log: Path, name: str) -> list[str]:
    """What the workers of a model wrote: the log names the thread W-<port>-<model>_<version>-<stream>."""
    written = re.compile(rf"^\S+ \[\w+ *\] W-\d+-{re.escape(name)}_\S+ \S+ - (.*)$")
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [found[1] for found in map(written.match, text.splitlines()) if found]
