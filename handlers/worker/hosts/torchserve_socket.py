"""Reads TorchServe's messages from a worker's socket in as few calls as possible.

TorchServe's worker reads every number and every string of a message by itself: 30 to 50 calls of the system for each
request of a batch. Here a call takes all that has arrived.
"""

from __future__ import annotations

import socket
import sys
from types import ModuleType

MODULE, FUNCTION = "ts.protocol.otf_message_handler", "_retrieve_buffer"  # of TorchServe 0.11 and 0.12
AT_ONCE = 1 << 16  # bytes


class Stream:
    """The bytes of a connection, of which those that nobody has asked for yet are held."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._held = bytearray()
        self._start = 0

    def read(self, connection: socket.socket, length: int) -> bytearray:
        """Exactly so many bytes, as TorchServe's own function; ends the worker when TorchServe has gone."""
        if connection is not self._connection:
            self._connection, self._held, self._start = connection, bytearray(), 0
        end = self._start + length
        if end > len(self._held):
            del self._held[: self._start]
            self._start, end = 0, length
            while len(self._held) < end:
                received = connection.recv(max(AT_ONCE, end - len(self._held)))
                if not received:
                    sys.exit(0)
                self._held += received
        found = self._held[self._start : end]
        self._start = end
        return found


def read_at_once(modules: dict[str, ModuleType]) -> bool:
    """Let TorchServe's worker read with a `Stream`; False if it is another version, which then reads as ever.

    Args:
        modules: `sys.modules` of the worker, between two messages.
    """
    module = modules.get(MODULE)
    if not callable(getattr(module, FUNCTION, None)):
        return False
    setattr(module, FUNCTION, Stream().read)
    return True
