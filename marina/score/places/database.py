"""Helpers for all databases: names without passwords, and work that is repeated if the connection is lost."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.formats.scan import ShardSize, cut
from marina.score.values import Shard

RETRY_S = 30.0  # for a database that is started again
PAUSE_S = 1.0
CLAIM_S = 30  # a claim of a shard that is not renewed ends after this time
P = ParamSpec("P")
T = TypeVar("T")


class Disconnected(MarinaError):
    """The connection to a database was lost, or there was none."""


def name_of(url: str) -> str:
    """A database without its user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def claimant() -> str:
    """The name under which a process claims shards; no other process has it, on any machine."""
    return f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}"


def retried(work: Callable[P, T]) -> Callable[P, T]:
    """Work in a database that is repeated for `RETRY_S` seconds while its connection is lost."""

    @wraps(work)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        deadline = time.monotonic() + RETRY_S
        while True:
            try:
                return work(*args, **kwargs)
            except Disconnected:
                if time.monotonic() + PAUSE_S > deadline:
                    raise
            time.sleep(PAUSE_S)

    return repeated


def answers_removed_error(place: str, written: int, present: int) -> MarinaError:
    """The error of a place that holds fewer answers than were written."""
    return MarinaError(
        f"{place} holds {present} answers of {written} that were written: some were removed, or had the same key",
        "add --restart to answer everything again",
    )


def key_shards(pieces: Sequence[tuple[Json, Json, int]], shard_size: ShardSize) -> list[Shard]:
    """Shards from pieces of up to `STEP` rows: the first key, the last key, and the number of rows of each."""
    ranges = cut(pieces, shard_size, sum(rows for _, _, rows in pieces))
    return [Shard(number, rows, {"first": first, "last": last}) for number, (first, last, rows) in enumerate(ranges)]


def first_line(error: Exception) -> str:
    """The first line of an error; further lines may show values of rows."""
    return str(error).strip().partition("\n")[0]
