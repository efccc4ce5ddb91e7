"""The values between an engine and the code that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from handlers.worker.values import Shape
from marina.fields import Section

CORE_PER_WORKER, PIPELINE, DATA_PARALLEL = "core-per-worker", "pipeline", "data-parallel"


class NoOptions(Section):
    """The options section of an engine that has no options."""


class EngineFields(NamedTuple):
    """The parts of a spec that its engine needs.

    Attributes:
        precision: "f32", "bf16", "int8" or "auto".
        names_precision: whether the spec sets the precision.
        names_examples: whether it names a file of examples.
        mode: what a worker does with its core group.
        core_groups: as the spec writes them, or None.
        options: the spec's section for the engine, of type `Engine.options`.
    """

    precision: str
    names_precision: bool
    names_examples: bool
    mode: str
    core_groups: str | None
    options: Any


class CompileOptions(NamedTuple):
    """How a graph computes: its precision, and the mitigations that keep its outputs finite.

    mitigations are names from `Engine.compile_options`.
    """

    precision: str
    mitigations: tuple[str, ...] = ()

    def file_name(self, stem: str) -> str:
        """The name of a file or folder that was made with these options."""
        return "-".join([stem, *self.mitigations])


class GraphFiles(NamedTuple):
    """The files that a compiler wrote for one graph, and additional fields to record for it.

    Several graphs may name the same weights.
    """

    graph: Path
    weights: Path | None
    notes: Mapping[str, Any] = {}


class GraphCompiler(Protocol):
    """A model prepared for one engine."""

    def compile(self, shape: Shape, options: CompileOptions, folder: Path) -> GraphFiles:
        """Write the graph of one shape under `folder`, with its code under `folder/graphs`."""


class DeviceMemory(NamedTuple):
    """The memory of one core of a device for all its graphs.

    Attributes:
        device: its name for people.
        families: the instance families that have it.
        bytes_a_core: the memory in bytes.
        bytes_a_weight: the bytes that a graph needs for each of its weights, with all else that it needs.
        physical: how many physical cores a core consists of, where nobody has set another number.
    """

    device: str
    families: tuple[str, ...]
    bytes_a_core: float
    bytes_a_weight: float
    physical: int = 1

    @property
    def key(self) -> str:
        """Its machine-readable name."""
        return self.families[0]

    def graphs(self, weights: int) -> int:
        """The number of graphs with so many weights that fit on a core."""
        return int(self.bytes_a_core / self.bytes_a_weight / weights)


class Hosting(NamedTuple):
    """Where the engine's archives can be hosted.

    Attributes:
        torch: whether its workers import PyTorch.
        image: name and tag of AWS's last image with TorchServe for its cores.
        instance: the smallest instance type of SageMaker with its cores.
        families: the instance families with its cores; empty for any.
        types: the types of these families, if Marina's table of instances has none of them.
        cores_a_device: the cores of one of its devices, by AWS Neuron's pages on their architectures; 0 for CPUs.
        sagemaker_hosts: the image of SageMaker's hosts that runs them (InferenceAmiVersion); "" for its default.
        not_on_sagemaker: why SageMaker cannot run them; "" if it can.
    """

    torch: bool = True
    image: str = "pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
    instance: str = "ml.c7i.xlarge"
    families: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    cores_a_device: int = 0
    sagemaker_hosts: str = ""
    not_on_sagemaker: str = ""
