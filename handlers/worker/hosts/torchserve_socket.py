"""Reads TorchServe's messages from a worker's socket in as few calls as possible.

TorchServe's worker reads every number and every string of a message by itself: 30 to 50 calls of the system for each
request of a batch. Here a call takes all bytes that have arrived.
"""

from __future__ import annotations

import socket
import sys
from types import ModuleType

MODULE, FUNCTION = "ts.protocol.otf_message_handler", "_retrieve_buffer"  # of TorchServe 0.11 and 0.12
READ_BYTES = 1 << 16  # of one call


class BufferedReader:
    """Reads a connection, and holds the bytes that have arrived and were not read yet."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._buffer = bytearray()
        self._start = 0

    def read(self, connection: socket.socket, length: int) -> bytearray:
        """Exactly so many bytes, as TorchServe's own function; ends the worker when TorchServe has gone."""
        if connection is not self._connection:
            self._connection, self._buffer, self._start = connection, bytearray(), 0
        end = self._start + length
        if end > len(self._buffer):
            del self._buffer[: self._start]
            self._start, end = 0, length
            while len(self._buffer) < end:
                received = connection.recv(max(READ_BYTES, end - len(self._buffer)))
                if not received:
                    sys.exit(0)
                self._buffer += received
        content = self._buffer[self._start : end]
        self._start = end
        return content


def install_buffered_reads(modules: dict[str, ModuleType]) -> bool:
    """Let TorchServe's worker read with a `BufferedReader`; False if it is another version, which reads as before.

    Args:
        modules: `sys.modules` of the worker, between two messages.
    """
    module = modules.get(MODULE)
    if not callable(getattr(module, FUNCTION, None)):
        return False
    setattr(module, FUNCTION, BufferedReader().read)
    return True
