"""Calls to the management API."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from marina.errors import ServerError
from marina.server.management import api
from marina.server.management.api import Management


def test_no_call_takes_longer_than_its_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(api, "token", lambda *_: "secret")
    with socket.socket() as silent:  # accepts connections, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(ServerError, match="does not answer on port"):
            Management(tmp_path, port, time.monotonic() + 0.5).models()
        with pytest.raises(ServerError, match="did not answer in the time allowed"):
            Management(tmp_path, port, time.monotonic() - 1).models()
