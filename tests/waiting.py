"""Waiting for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], limit_s: float, what: object = "") -> None:
    """Wait until a condition holds; the test fails after `limit_s` seconds, saying what was waited for."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
