"""Waits until models are READY, and finds the reason if a worker did not start."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from handlers.worker.errors import FAILURE_MARK
from handlers.worker.placement.leases import NO_GROUP_LEFT
from marina.errors import ServerError
from marina.server.management.api import Management
from marina.server.run.logs import DIED_MESSAGE

POLL_S = 0.2
EXCEPTION_LINE = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*")


def wait_until_ready(
    management: Management,
    models: Mapping[str, str | None],
    log: Path,
    log_start: int,
    deadline: float,
    alive: Callable[[], bool],
    strict: bool = True,
) -> None:
    """Wait until every worker of every model is READY.

    Args:
        management: management API of the server.
        models: for each model to wait for its version, or None for its default version.
        log: file with the output of the workers.
        log_start: size of the log in bytes when the models were registered; earlier output is ignored.
        deadline: when to give up, in seconds of `time.monotonic`.
        alive: returns whether the server is still running.
        strict: whether every model of a bundle must be served too.

    Raises:
        ServerError: a worker, or a model of a bundle, failed (the message contains the reason), the server exited, or
            the deadline passed.
    """
    waiting = list(models)
    ready_names: set[str] = set()
    while waiting:
        for name in list(waiting):
            status = management.status(name, models[name])
            reason = failure(log, log_start, name, status.version)
            if status.workers and status.ready >= status.workers and not (strict and reason):
                # a worker's message about its models may come into the log a moment later
                if name in ready_names or not strict:
                    waiting.remove(name)
                ready_names.add(name)
                continue
            if reason:
                raise ServerError(f"model {name} cannot be served: {reason}. Its log: {log}")
        if not alive():
            raise ServerError(f"the server ended while models were starting. Its log: {log.parent}")
        if waiting and time.monotonic() > deadline:
            raise ServerError(f"model {waiting[0]} is not READY in the time allowed; see {log}, or raise --timeout")
        time.sleep(POLL_S if waiting else 0)


def failure(log: Path, log_start: int, name: str, version: str) -> str | None:
    """Why a worker of a model did not start, as logged by the worker; None if no worker failed.

    Args:
        log, log_start: as in `wait_until_ready`.
        name, version: name and version of the model.
    """
    lines = _lines(log, log_start, f"{name}_{version}")
    for line in reversed(lines):
        if FAILURE_MARK in line:
            return line.split(FAILURE_MARK, 1)[1].strip()
        if NO_GROUP_LEFT in line:  # such a worker waits, and does not end
            return line[line.index(NO_GROUP_LEFT) :].strip()
    died = [line.split(DIED_MESSAGE, 1)[1].strip() for line in lines if DIED_MESSAGE in line]
    if not died:
        return None
    exception_lines = [line for line in lines if EXCEPTION_LINE.match(line)]
    reasons = [*filter(None, died), "its worker ended without a reason"]
    return exception_lines[-1] if exception_lines else reasons[0]


def log_size(log: Path) -> int:
    """Bytes in a log; 0 if there is none yet."""
    return log.stat().st_size if log.exists() else 0


def _lines(log: Path, log_start: int, model: str) -> list[str]:
    """The output of a model's workers; in the log, their threads are named W-<port>-<model>_<version>-<stream>."""
    pattern = re.compile(rf"^\S+ \[\w+ *\] W-\d+-{re.escape(model)}-(?:stdout|stderr) \S+ - (.*)$")
    try:
        with log.open("rb") as file:
            file.seek(log_start)
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line_match[1] for line_match in map(pattern.match, text.splitlines()) if line_match]
