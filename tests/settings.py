"""Settings of workers, as tests need them."""

from __future__ import annotations

from typing import Any

from handlers.worker.request.instances import Limits
from handlers.worker.settings import Settings

WIDE = Limits(instances=256, characters=10_000, windows=256, body_bytes=1_000_000, tokens=100_000)


def make_settings(limits: Limits = WIDE, **changes: Any) -> Settings:
    """Settings that no test meets the limits of, but for those it changes."""
    plain = Settings(
        long_text="truncate",
        core_groups=None,
        mode="core-per-worker",
        limits=limits,
        parameters={},
        version="1.0",
        server_timing=False,
        deadline_ms=600_000,
        max_batch_ms=600_000,
        batch_size=1000,
        queue_size=1000,
    )
    return plain._replace(**changes)
