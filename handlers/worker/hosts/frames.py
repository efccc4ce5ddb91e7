"""Messages between the front of the host `direct` and its workers: JSON fields, then bodies as they are.

A message is the length of its fields in 4 bytes, the fields, and the bodies, whose lengths are among the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

PROTOCOL = 1  # a front and its workers must have the same
LENGTH_BYTES = 4
SIZES = "sizes"


class Message(NamedTuple):
    """The fields of a message, as JSON types, and its bodies."""

    fields: Mapping[str, Any]
    bodies: Sequence[bytes] = ()

    def as_bytes(self) -> bytes:
        """The message as it is sent."""
        head = orjson.dumps({**self.fields, SIZES: list(map(len, self.bodies))})
        return b"".join([len(head).to_bytes(LENGTH_BYTES, "big"), head, *self.bodies])


def head_length(prefix: bytes) -> int:
    """The length of the fields that follow the first bytes of a message."""
    return int.from_bytes(prefix, "big")


def read_head(head: bytes) -> tuple[dict[str, Any], list[int]]:
    """The fields of a message, and the lengths of the bodies that follow."""
    fields: dict[str, Any] = orjson.loads(head)
    return fields, fields.pop(SIZES)


def read_message(read: Callable[[int], bytes]) -> Message | None:
    """The next message; None if there are no more.

    Args:
        read: returns that many bytes, or fewer if the other side has ended.
    """
    prefix = read(LENGTH_BYTES)
    if len(prefix) < LENGTH_BYTES:
        return None
    fields, sizes = read_head(read(head_length(prefix)))
    return Message(fields, [read(size) for size in sizes])
