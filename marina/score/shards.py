"""The life of a shard: everything that changes which shards are free, claimed or done follows `TRANSITIONS`.

A sink keeps the states where its answers are: in memory and in records of files, or in a table of its database.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ShardState(Enum):
    """Whose a shard is."""

    FREE = "nobody answers it"
    CLAIMED = "a process answers it"
    DONE = "its answers are written"


class ShardEvent(Enum):
    """What happens to a shard."""

    CLAIM = "a process claims it"
    RENEW = "the process renews its claim"
    RELEASE = "the process gives it back, or has died"
    EXPIRE = "the claim was not renewed"
    WRITE = "its answers and its mark are written"


TRANSITIONS: Mapping[tuple[ShardState, ShardEvent], ShardState] = {
    (ShardState.FREE, ShardEvent.CLAIM): ShardState.CLAIMED,
    (ShardState.FREE, ShardEvent.WRITE): ShardState.DONE,  # a process whose claim has expired was still quicker
    (ShardState.CLAIMED, ShardEvent.RENEW): ShardState.CLAIMED,
    (ShardState.CLAIMED, ShardEvent.RELEASE): ShardState.FREE,
    (ShardState.CLAIMED, ShardEvent.EXPIRE): ShardState.FREE,
    (ShardState.CLAIMED, ShardEvent.WRITE): ShardState.DONE,
    (ShardState.DONE, ShardEvent.WRITE): ShardState.DONE,  # the second answers change nothing
}
