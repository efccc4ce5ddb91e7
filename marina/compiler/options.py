"""What a Neuron engine's compiler is told, settled from the spec before anything is compiled."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handlers.worker.placement.groups import parse_core_groups
from marina.compiler.source import count_weights
from marina.errors import SpecError
from marina.spec import Spec

if TYPE_CHECKING:
    from marina.compiler.engines import Recipe
    from marina.compiler.job import Job


def compiler_options(spec: Spec, source: Path) -> dict[str, Any]:
    """The options of the spec's engine, with everything open settled; empty for CPU engines.

    Raises:
        SpecError: a pipeline asks for more cores than a group has.
    """
    if spec.engine == "neuron":
        return {**spec.neuron.model_dump(mode="json"), "pipeline_cores": _pipeline_cores(spec, source)}
    if spec.engine == "neuronx":
        # DataParallel loads the graphs itself; loaded before that they would be loaded twice
        return {**spec.neuronx.model_dump(mode="json"), "lazy_load": spec.mode == "data-parallel"}
    return {}


def compiler_record(job: Job, recipe: Recipe, checked: bool) -> dict[str, Any]:
    """What `artifact.json` says of how a Neuron engine's graphs were compiled; empty for CPU engines.

    Args:
        job: what was compiled.
        recipe: with which it was.
        checked: whether the graphs were run here.
    """
    if not job.options:
        return {}
    arguments = import_module(f"marina.compiler.{job.spec.engine}").arguments(job.options, recipe.mitigations)
    return {**job.options, "arguments": arguments, "mitigations": recipe.mitigations, "checked": checked}


def _pipeline_cores(spec: Spec, source: Path) -> int:
    """The cores that one graph spreads over.

    Source of the formula: the AWS Neuron SDK's page on the NeuronCore pipeline.
    """
    if spec.mode != "pipeline":
        return 1
    (group, *_) = parse_core_groups(spec.core_groups or "1")
    asked = spec.neuron.pipeline_cores
    if asked == "auto":
        return max(1, min(group, 4 * round(count_weights(source) / 2e7)))
    if asked > group:
        raise SpecError(
            f"models/{spec.name}.yaml: neuron.pipeline_cores: {asked} is more than a core group has ({group}); "
            "lower it, or give larger core_groups"
        )
    return asked
