"""The memory of bodies: it is bounded, and given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.server.hosts.direct.bodies import Bodies, ClientGone, NoMemory

LIMIT = 100


def messages(*parts: bytes, leaves: bool = False) -> Callable[[], Awaitable[dict[str, Any]]]:
    """What ASGI gives for a body in parts."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or leaves}

    return receive


def read(bodies: Bodies, *parts: bytes, length: int = 0, leaves: bool = False) -> bytes:
    with bodies.share() as share:
        return asyncio.run(share.read(messages(*parts, leaves=leaves), length, LIMIT))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=3))
def test_a_body_is_joined_and_its_memory_is_given_back(parts: list[bytes]) -> None:
    bodies = Bodies(LIMIT)
    assert read(bodies, *parts) == b"".join(parts)
    bodies.take(LIMIT)


def test_what_there_is_no_memory_for_is_refused_before_it_is_read() -> None:
    bodies = Bodies(LIMIT)
    with bodies.share() as first:
        first.grow(60)
        with pytest.raises(NoMemory):
            read(bodies, length=50)
        with pytest.raises(NoMemory):
            read(bodies, b"x" * 30, b"x" * 30)  # of a length that is not known
        assert read(bodies, b"x" * 40, length=40) == b"x" * 40
    bodies.take(LIMIT)


def test_no_more_is_read_than_is_allowed() -> None:
    assert len(read(Bodies(1000), *[b"x" * 30] * 30)) == 120


def test_a_client_that_leaves_gives_its_memory_back() -> None:
    bodies = Bodies(LIMIT)
    with pytest.raises(ClientGone):
        read(bodies, b"x", length=50, leaves=True)
    bodies.take(LIMIT)
