"""What all databases share: names without passwords, and work that is done again if the connection is lost."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.formats.scan import Size, cut
from marina.score.values import Shard

RETRY_S = 30.0  # for a database that is started again
PAUSE_S = 1.0
CLAIM_S = 30  # after which the claim of a shard that is not renewed counts no more
T = TypeVar("T")


class Disconnected(MarinaError):
    """The connection to a database was lost, or there was none."""


def name_of(url: str) -> str:
    """A database without its user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def claimant() -> str:
    """Who claims shards: a name that no other process has, on any machine."""
    return f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}"


def again(work: Callable[[], T]) -> T:
    """Do some work in a database; if its connection is lost, do it again, for half a minute."""
    end = time.monotonic() + RETRY_S
    while True:
        try:
            return work()
        except Disconnected:
            if time.monotonic() + PAUSE_S > end:
                raise
        time.sleep(PAUSE_S)


def answers_gone(place: str, wanted: int, present: int) -> MarinaError:
    """What is said when a place holds fewer answers than were written."""
    return MarinaError(
        f"{place} holds {present} answers of {wanted} that were written, so some were removed",
        "add --restart to answer everything again",
    )


def key_shards(pieces: Sequence[tuple[Json, Json, int]], size: Size) -> list[Shard]:
    """Shards from the first and the last key of each `STEP` rows with their number."""
    found = cut(pieces, size, sum(rows for _, _, rows in pieces))
    return [Shard(number, rows, {"first": first, "last": last}) for number, (first, last, rows) in enumerate(found)]


def first_line(error: Exception) -> str:
    """What failed; further lines may show values of rows."""
    return str(error).strip().partition("\n")[0]
