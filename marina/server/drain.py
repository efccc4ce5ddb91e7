"""Lets a server or a version of a model finish its work before it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress

from marina.errors import ServerError
from marina.project import Project
from marina.server.archives import DRAINING, offered, write_draining
from marina.server.torchserve.management import Management

POLL_S = 0.05
DEAD_S = 10.0  # a version whose workers do not come back in this time answers nothing any more


def let_finish(project: Project, management: Management, names: Iterable[str], seconds: float) -> None:
    """Refuse new requests to models and wait until every one has answered those that it has.

    A model for which that fails does not keep the others from it. If it is interrupted, requests are taken again.
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
    """Answer new requests to a model with 503; those that it has already are answered.

    The model gets a version without workers, which becomes its default. Requests that name a version in their URL are
    still accepted.
    """
    archive = project.run / f"{DRAINING}.mar"
    write_draining(archive)
    if DRAINING not in management.versions(name):
        with offered(project, archive) as file:
            management.register(file, name)
    management.set_default(name, DRAINING)


def wait_until_idle(management: Management, name: str, version: str, deadline: float) -> bool:
    """Wait until a version has answered all that it was given; False if the deadline passed before.

    TorchServe says how many requests wait, but not whether a worker is at work. A worker answers a request for its
    description after its batch, so the version is idle when no request waits and every worker has answered one since.

    Args:
        management: management API of the server.
        name, version: the version, which gets no new requests.
        deadline: when to give up, in seconds of `time.monotonic`.
    """
    answered: set[int] = set()
    dead = time.monotonic() + DEAD_S
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        with suppress(ServerError):
            status = management.status(name, version)
            if not status.pids and (not status.pending or time.monotonic() > dead):
                return not status.pending
            if status.pending:
                answered = set()
            elif set(status.pids) <= answered:
                return True
            else:
                answered.add(_described_by(management, name, version, left))
        time.sleep(POLL_S)


def _described_by(management: Management, name: str, version: str, timeout_s: float) -> int:
    """The pid of the worker that answers a request for the description; 0 if it does not say."""
    described = management.describe(name, version, timeout_s).get("customizedMetadata")
    fields = json.loads(described) if isinstance(described, str) else described
    return int(fields.get("pid", 0)) if isinstance(fields, dict) else 0
