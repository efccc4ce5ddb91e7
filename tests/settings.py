"""Settings of workers, as tests need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handlers.worker.request.instances import RequestLimits
from handlers.worker.settings import MemberSettings, Settings

WIDE = RequestLimits(instances=256, characters=10_000, windows=256, body_bytes=1_000_000, tokens=100_000)


class _ForAll(dict[str, MemberSettings]):
    """The same settings for every model, whatever its name."""

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings

    def __contains__(self, _: object) -> bool:
        return True

    def __getitem__(self, _: str) -> MemberSettings:
        return self._settings


def make_settings(
    limits: RequestLimits = WIDE,
    *,
    long_text: str = "truncate",
    parameters: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Settings:
    """Settings that no test meets the limits of, but for those it changes."""
    plain = Settings(
        members=_ForAll(MemberSettings(long_text, limits, parameters or {})),
        core_groups=None,
        mode="core-per-worker",
        version="1.0",
        server_timing=False,
        deadline_ms=600_000,
        response_timeout_s=600,
        max_batch_ms=600_000,
        batch_size=1000,
        queue_size=1000,
    )
    return plain._replace(**changes)
