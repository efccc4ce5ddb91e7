"""What Batch Transform hears of the bodies that a server takes."""

from __future__ import annotations

from typing import Any

from marina.server.transform import execution_parameters


def config(workers: int, *max_body_bytes: int) -> dict[str, Any]:
    members = {f"m{number}": {"max_body_bytes": size} for number, size in enumerate(max_body_bytes)}
    return {"minWorkers": workers, "handler": {"members": members}}


def test_lines_are_sent_only_if_all_models_take_them() -> None:
    small = execution_parameters([config(1, 6_000_000), config(2, 9_000_000, 500_000)], lambda _: 1)
    assert small == {"MaxConcurrentTransforms": 2, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 1}


def test_no_more_are_sent_at_once_than_there_is_memory_for() -> None:
    large = execution_parameters([config(8, 6_000_000)], lambda size: 20_000_000 // size)
    assert large == {"MaxConcurrentTransforms": 3, "BatchStrategy": "MULTI_RECORD", "MaxPayloadInMB": 5}
