"""What a person runs: compile, pack, serve and ask. `marina.Client` asks from a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marina.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """Import the client when it is asked for: the commands that compile do not need it."""
    if name == "Client":
        from marina.client import Client

        return Client
    raise AttributeError(f"module 'marina' has no attribute {name!r}")
