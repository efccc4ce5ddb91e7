"""Waits until models are READY, and finds the reason if a worker did not start."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from handlers.worker.hosts.torchserve import FAILURE_MARK
from handlers.worker.placement.leases import NO_GROUP_LEFT
from marina.errors import ServerError
from marina.server.torchserve.management import Management

POLL_S = 0.2
# TorchServe logs this when a worker has exited; the worker's exception is on an earlier line.
DIED = "Backend worker process died."
RAISED = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*")


def wait_until_ready(
    management: Management,
    models: Mapping[str, str | None],
    log: Path,
    start: int,
    deadline: float,
    alive: Callable[[], bool],
    strict: bool = True,
) -> None:
    """Wait until every worker of every model is READY.

    Args:
        management: management API of the server.
        models: for each model to wait for its version, or None for its default version.
        log: file with the output of the workers.
        start: size of the log in bytes when the models were registered; earlier output is ignored.
        deadline: when to give up, in seconds of `time.monotonic`.
        alive: returns whether the server is still running.
        strict: whether every model of a bundle must be served too.

    Raises:
        ServerError: a worker, or a model of a bundle, failed (the message contains the reason), the server exited, or
            the deadline passed.
    """
    waiting = list(models)
    seen: set[str] = set()
    while waiting:
        for name in list(waiting):
            status = management.status(name, models[name])
            reason = failure(log, start, name, status.version)
            if status.workers and status.ready >= status.workers and not (strict and reason):
                # what a worker has said of its models may come into the log a moment later
                if name in seen or not strict:
                    waiting.remove(name)
                seen.add(name)
                continue
            if reason:
                raise ServerError(f"model {name} cannot be served: {reason}. Its log: {log}")
        if not alive():
            raise ServerError(f"TorchServe ended while models were starting. Its log: {log.parent}")
        if waiting and time.monotonic() > deadline:
            raise ServerError(f"model {waiting[0]} is not READY in the time allowed; see {log}, or raise --timeout")
        time.sleep(POLL_S if waiting else 0)


def failure(log: Path, start: int, name: str, version: str) -> str | None:
    """Why a worker of a model did not start, as logged by the worker; None if no worker failed.

    Args:
        log, start: as in `wait_until_ready`.
        name, version: name and version of the model.
    """
    lines = _lines(log, start, f"{name}_{version}")
    for line in reversed(lines):
        if FAILURE_MARK in line:
            return line.split(FAILURE_MARK, 1)[1].strip()
        if NO_GROUP_LEFT in line:  # such a worker waits, and does not end
            return line[line.index(NO_GROUP_LEFT) :].strip()
    if not any(DIED in line for line in lines):
        return None
    raised = [line for line in lines if RAISED.match(line)]
    return raised[-1] if raised else "its worker ended without a reason"


def log_size(log: Path) -> int:
    """Bytes in a log; 0 if there is none yet."""
    return log.stat().st_size if log.exists() else 0


def _lines(log: Path, start: int, model: str) -> list[str]:
    """The output of a model's workers; in the log, their threads are named W-<port>-<model>_<version>-<stream>."""
    written = re.compile(rf"^\S+ \[\w+ *\] W-\d+-{re.escape(model)}-(?:stdout|stderr) \S+ - (.*)$")
    try:
        with log.open("rb") as file:
            file.seek(start)
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [found[1] for found in map(written.match, text.splitlines()) if found]
