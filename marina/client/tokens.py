"""The token that goes with each request, and a new one where the server refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marina.errors import UnauthorizedError

Token = str | Callable[[], str] | None
"""A token, a function that gives a valid one, or none."""


def with_token(token: Token, send: Callable[[str | None], Any]) -> Any:
    """What `send` returns with a token. Where the server refuses it, a function is called for another, once.

    Raises:
        UnauthorizedError: the server refuses the token, and there is no other, or it refuses that one too.
    """
    used = _current(token)
    try:
        return send(used)
    except UnauthorizedError:
        renewed = _current(token)
        if renewed == used:
            raise
    return send(renewed)


def authorization(token: str | None) -> dict[str, str]:
    """The header that carries a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def call_metadata(token: str | None) -> list[tuple[str, str]]:
    """What goes with each gRPC call: TorchServe looks for the token only in calls that say that they are gRPC."""
    given = [(name.lower(), value) for name, value in authorization(token).items()]
    return [("protocol", "gRPC"), ("channel", "client"), *given]


def _current(token: Token) -> str | None:
    return token() if callable(token) else token
