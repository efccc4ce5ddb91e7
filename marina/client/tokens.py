"""The token of each request, and a new one if the server refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marina.errors import UnauthorizedError

Token = str | Callable[[], str] | None
"""A token, a function that returns a valid one, or None."""


def with_token(token: Token, send: Callable[[str | None], Any]) -> Any:
    """Call `send` with a token and return its result.

    If the server refuses the token and `token` is a function, the function is called once more for another one.

    Raises:
        UnauthorizedError: the server refused the token, and there is no other one, or it refused that one too.
    """
    first_token = _current(token)
    try:
        return send(first_token)
    except UnauthorizedError:
        new_token = _current(token)
        if new_token == first_token:
            raise
    return send(new_token)


def authorization(token: str | None) -> dict[str, str]:
    """The header that carries a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def call_metadata(token: str | None) -> list[tuple[str, str]]:
    """The metadata of a gRPC call; TorchServe looks for the token only in calls that are marked as gRPC."""
    headers = [(name.lower(), value) for name, value in authorization(token).items()]
    return [("protocol", "gRPC"), ("channel", "client"), *headers]


def _current(token: Token) -> str | None:
    value = token() if callable(token) else token
    return value and value.strip()  # a file of a token ends with a line break
