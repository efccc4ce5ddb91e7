"""A real nginx in front of a server."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATHS = f"{os.environ['PATH']}:/usr/sbin"  # where Debian has nginx
needs_nginx = pytest.mark.skipif(shutil.which("nginx", path=PATHS) is None, reason="nginx is not installed")


@contextmanager
def nginx(folder: Path, configuration: str, changes: dict[str, str], port: int) -> Iterator[None]:
    """Run nginx on a configuration with these changes of its text, which lets it listen on a port.

    The command is that in the comment at the top of the configuration, if there is one.
    """
    documented = re.search(r"^#\s+(nginx -p \. -c \S+ .*)", configuration, re.MULTILINE)
    command = documented[1].split() if documented else ["nginx", "-p", ".", "-c", "nginx.conf", "-e", "build/error.log"]
    for text, changed in changes.items():
        assert text in configuration
        configuration = configuration.replace(text, changed)
    (folder / "build").mkdir(exist_ok=True)
    file = folder / command[command.index("-c") + 1]
    file.parent.mkdir(exist_ok=True)
    file.write_text(configuration)
    with subprocess.Popen(command, cwd=folder, env={"PATH": PATHS}) as proxy:
        try:
            _wait_for_port(port)
            yield
        finally:
            proxy.terminate()


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
