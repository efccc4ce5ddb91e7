"""One command at a time changes what a server is and serves."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from marina.errors import ServerError
from marina.project import Project

LOCK_S = 20
POLL_S = 0.1


class Locked(ServerError):
    """Another command is changing the server."""


@contextmanager
def one_at_a_time(project: Project, wait_s: float = LOCK_S) -> Iterator[None]:
    """Let no other command start or stop the server meanwhile; `Locked` if another is at work for too long."""
    project.run.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait_s
    with (project.run / "serve.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Locked("another command is changing the server", "wait until it is done") from None
                time.sleep(POLL_S)
        yield
