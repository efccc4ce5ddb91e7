"""Lets a server or a version of a model finish its work before it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress

from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import DRAINING, in_model_store, write_draining
from marina.server.management.api import Management

POLL_S = 0.05
WORKERS_GONE_S = 10.0  # if no worker of a version comes back in this time, the version answers no request any more


def let_finish(project: Project, management: Management, names: Iterable[str], seconds: float) -> None:
    """Refuse new requests to models and wait until each model has answered its requests.

    If that fails for a model, the other models still finish. If it is interrupted, requests are accepted again.
    """
    deadline = time.monotonic() + seconds
    defaults: dict[str, str] = {}
    try:
        for name in names:
            with suppress(ServerError, OSError):
                defaults[name] = management.status(name).version
                refuse_new(project, management, name)
        for name in defaults:
            with suppress(ServerError):
                for version in management.versions(name):
                    if version != DRAINING:
                        wait_until_idle(management, name, version, deadline)
    except BaseException:
        for name, version in defaults.items():
            with suppress(ServerError):
                management.set_default(name, version)
        raise


def refuse_new(project: Project, management: Management, name: str) -> None:
    """Answer new requests to a model with 503; the model still answers its earlier requests.

    The model gets a version without workers, which becomes its default. Requests that name a version in their URL are
    still accepted.
    """
    archive = project.run / f"{DRAINING}.mar"
    write_draining(archive)
    if DRAINING not in management.versions(name):
        with in_model_store(project, archive) as file:
            management.register(file, name)
    management.set_default(name, DRAINING)


def wait_until_idle(management: Management, name: str, version: str, deadline: float) -> bool:
    """Wait until a version has answered all its requests; False if the deadline passed before.

    TorchServe says how many requests wait, but not whether a worker is at work. A worker answers a request for its
    description after its batch, so the version is idle when no request waits and every worker has answered one since.

    Args:
        management: management API of the server.
        name, version: the model and its version, which gets no new requests.
        deadline: when to give up, in seconds of `time.monotonic`.
    """
    answered: set[int] = set()
    gone_at = time.monotonic() + WORKERS_GONE_S
    while True:
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0:
            return False
        with suppress(ServerError):
            status = management.status(name, version)
            if not status.pids and (not status.pending or time.monotonic() > gone_at):
                return not status.pending
            if status.pending:
                answered = set()
            elif set(status.pids) <= answered:
                return True
            else:
                answered.add(_describing_worker(management, name, version, seconds_left))
        time.sleep(POLL_S)


def _describing_worker(management: Management, name: str, version: str, timeout_s: float) -> int:
    """The pid of the worker that answers a request for the description; 0 if it does not say."""
    metadata = management.describe(name, version, timeout_s).get("customizedMetadata")
    fields = json.loads(metadata) if isinstance(metadata, str) else metadata
    return int(fields.get("pid", 0)) if isinstance(fields, dict) else 0
