"""What a server says to SageMaker's Batch Transform, which asks before it sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MIB = 1 << 20


def execution_parameters(configs: Sequence[dict[str, Any]], at_once: Callable[[int], int]) -> dict[str, Any]:
    """How many bodies it may send at once, and of which size.

    Several records go into one body only if all models take a body of a MiB, the smallest that SageMaker knows.

    Args:
        configs: the model-config.yaml of each archive.
        at_once: how many bodies of so many bytes the server has memory for.
    """
    members = [member for config in configs for member in config["handler"]["members"].values()]
    max_body_bytes = min(member["max_body_bytes"] for member in members)
    several = max_body_bytes >= MIB
    workers = max(int(config["minWorkers"]) for config in configs)
    return {
        "MaxConcurrentTransforms": min(workers, at_once(max_body_bytes)) if several else workers,
        "BatchStrategy": "MULTI_RECORD" if several else "SINGLE_RECORD",
        "MaxPayloadInMB": max(1, max_body_bytes // MIB),
    }
