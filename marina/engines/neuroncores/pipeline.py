"""The cores that a graph spreads over in a pipeline of Inf1."""

from __future__ import annotations

from handlers.worker.placement.groups import parse_core_groups
from marina.engines.values import EngineFields


def advised_cores(weights: int) -> int:
    """The cores of a pipeline for a number of weights, 0 for none; a starting point, says AWS.

    Source: the AWS Neuron SDK's page on the NeuronCore pipeline.
    """
    return 4 * round(weights / 2e7)


def pipeline_cores(fields: EngineFields, advised: int | None) -> int:
    """The cores that one graph spreads over.

    Args:
        fields: the spec's fields.
        advised: from `advised_cores`; None if the spec has a number.

    Raises:
        ValueError: the spec's number is larger than a core group.
    """
    group_cores = min(parse_core_groups(fields.core_groups or "1"))
    if advised is not None:
        return max(1, min(group_cores, advised))
    requested_cores = int(fields.options.pipeline_cores)
    if requested_cores > group_cores:
        raise ValueError(
            f"neuron.pipeline_cores: {requested_cores} is more than a core group has ({group_cores}); lower it, or "
            "give larger core_groups"
        )
    return requested_cores
