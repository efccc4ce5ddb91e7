"""One command at a time changes what a server is and serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from marina.errors import ServerError
from marina.files import locked
from marina.project import Project

LOCK_S = 20


class Locked(ServerError):
    """Another command is changing the server."""


@contextmanager
def one_at_a_time(project: Project, wait_s: float = LOCK_S) -> Iterator[None]:
    """Let no other command start or stop the server meanwhile; `Locked` if another is at work for too long."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(project.run / "serve.lock", wait_s))
        except BlockingIOError:
            raise Locked("another command is changing the server", "wait until it is done") from None
        yield
