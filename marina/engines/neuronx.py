"""The engine neuronx: compiles graphs for Inf2 and Trn1 with torch-neuronx, on any machine.

Every choice is passed to the compiler explicitly, and recorded; the compiler's defaults have changed between releases.
Source: the AWS Neuron SDK's reference of `torch_neuronx.trace` and of neuronx-cc's command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from pydantic import field_validator, model_validator

from handlers.worker.engines.neuronx import SDK, check_target
from handlers.worker.engines.packages import import_runtime
from handlers.worker.engines.releases import (
    INF2,
    NO_TRN3,
    SAGEMAKER_DRIVER,
    SAGEMAKER_HOSTS,
    minor,
    release_of,
    runtime_packages,
)
from handlers.worker.errors import ArtifactError, PlacementError
from handlers.worker.placement.discovery import DEVICES, instance_type
from marina.engines.neuroncores.claims import NEURONX
from marina.engines.neuroncores.engine import NeuronEngine, Trace
from marina.engines.neuroncores.host import APT, Packages, unfit
from marina.engines.neuroncores.mitigations import MORE_EXACT, SATURATE
from marina.engines.scalars import typed_scalars
from marina.engines.values import CORE_PER_WORKER, DATA_PARALLEL, DeviceMemory, EngineFields, Hosting
from marina.errors import CompileError
from marina.fields import Section

# prints what `torch_neuronx.analyze` says of a module, and fails if an operator is not supported
ANALYZE = """
import tempfile, torch, torch_neuronx
with tempfile.TemporaryDirectory() as folder:
    found = torch_neuronx.analyze(torch.nn.Linear(4, 4), torch.rand(1, 4), compiler_workdir=folder)
print(found["support_percentage"], *found["supported_operators"])
raise SystemExit(len(found["unsupported_operators"]))
"""
# 4 bytes, and 30 % for code and scratch, until somebody has measured it (`marina doctor --hardware`)
BYTES_A_WEIGHT = 4 * 1.3
PLATFORM = "NEURON_PLATFORM_TARGET_OVERRIDE"
# its values, by the versions of NeuronCores that they mean (the reference of NKI)
PLATFORMS = {"inf2": 2, "trn1": 2, "gen2": 2, "trn2": 3, "gen3": 3}
TRN2_CORES = 8  # physical cores of a device of Trn2, by AWS Neuron's page on logical NeuronCores


class NeuronxOptions(Section):
    """Compiling for Inf2 and Trn1 with torch-neuronx and neuronx-cc."""

    target: Literal["inf2", "trn1", "trn1n", "trn2"] = "inf2"
    """The instances that the graphs are for."""

    logical_nc_config: Literal[1, 2] = 2
    """With target: trn2, how many physical cores a graph computes on. It must be what
    NEURON_LOGICAL_NC_CONFIG sets on the instance, which is 2 by default."""

    auto_cast: Literal["none", "matmult", "all"] = "matmult"
    """Which operations compute in auto_cast_type. AWS's published figures are for matmult in bf16,
    while neuronx-cc's own choice is none since Neuron 2.27."""

    auto_cast_type: Literal["bf16", "fp16", "tf32", "fp8_e4m3"] = "bf16"
    """The number format to cast to."""

    optlevel: Literal[1, 2, 3] = 2
    """How hard the compiler works: 1 compiles fastest, 3 may compute fastest."""

    inline_weights: bool = True
    """Keep weights inside the compiled graph. false keeps them beside it (`inline_weights_to_neff`): then
    another fine-tune of the same architecture is not compiled again, but reuses the graphs with its own
    weights (`torch_neuronx.replace_weights`). Calls take somewhat longer than with weights inside."""

    dynamic_batch: bool = False
    """Let graphs take other batch sizes too (`torch_neuronx.dynamic_batch`). Marina's own calls keep to
    the compiled shape."""

    async_load: bool = False
    """Load graphs onto the core in the background, several at once."""

    compiler_args: tuple[str, ...] = ()
    """More arguments for neuronx-cc, for example [--enable-fast-context-switch]."""

    @field_validator("target", mode="before")
    @classmethod
    def _check_target(cls, target: Any) -> Any:
        if str(target).startswith("trn3"):
            raise ValueError(NO_TRN3)
        return target

    @model_validator(mode="after")
    def _check_combination(self) -> NeuronxOptions:
        if self.dynamic_batch and not self.inline_weights:
            raise ValueError("dynamic_batch needs inline_weights: true")
        return self

    @property
    def precision(self) -> str:
        """The number format of matrix products."""
        return "f32" if self.auto_cast == "none" else self.auto_cast_type

    @property
    def casts_all(self) -> bool:
        """Whether more than matrix products is cast."""
        return self.auto_cast == "all"


class Neuronx(NeuronEngine):
    """torch-neuronx and neuronx-cc."""

    name = "neuronx"
    packages = (SDK.runtime, SDK.compiler)
    stack = "inf2"
    sdk = SDK
    more_packages = ("libneuronxla",)
    pythons = ((3, 10), (3, 13))
    python = f"python{INF2.python}"
    host = Packages(
        instances=("inf2", "trn1", "trn2"),
        driver=SpecifierSet(INF2.drivers),
        install_driver=f"{APT} linux-headers-$(uname -r) 'aws-neuronx-dkms={minor(INF2.driver)}'",
        install_runtime=f"{APT} {' '.join(map(repr, runtime_packages(INF2)))}",
        limits={
            "islpy": (SpecifierSet("<2026.2"), "neuronx-cc fails with it, NCC_ISMP902 (aws-neuron-sdk #1391)"),
        },
        refused={"trn3": NO_TRN3},
    )
    options = NeuronxOptions
    modes = (CORE_PER_WORKER, DATA_PARALLEL)
    # AWS Neuron's pages on the architecture of Inf2 and Trn1, 32 GB per chip with two cores, and on logical NeuronCores
    memories = (
        DeviceMemory("Inferentia 2", ("inf2", "trn1"), 16e9, BYTES_A_WEIGHT),
        DeviceMemory("Trainium 2", ("trn2",), 24e9, BYTES_A_WEIGHT, physical=2),
    )
    hosting = Hosting(
        image=INF2.image,
        instance="ml.inf2.xlarge",
        families=("inf2", "trn1"),
        cores_a_device=2,
        not_on_sagemaker=unfit(SAGEMAKER_DRIVER, INF2.runtime),
    )
    more_exact = "neuronx.auto_cast: none"
    claims = NEURONX

    def hosting_for(self, versions: Mapping[str, str], compiler: Mapping[str, Any]) -> Hosting:
        hosting = self.hosting
        if compiler.get("target") == "trn2":
            hosting = hosting._replace(
                instance="ml.trn2.48xlarge",
                families=("trn2",),
                types=("trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge"),
                cores_a_device=TRN2_CORES // compiler["logical_nc_config"],
            )
        version = versions.get(SDK.runtime, "")
        release = release_of(version)
        if version and release is None:
            return hosting._replace(not_on_sagemaker=f"none of AWS's images for them is known to have {version}")
        if release is None or unfit(SAGEMAKER_DRIVER, release.runtime):
            return hosting
        return hosting._replace(image=release.image, sagemaker_hosts=SAGEMAKER_HOSTS, not_on_sagemaker="")

    def check(self, fields: EngineFields) -> None:
        super().check(fields)
        if fields.mode == DATA_PARALLEL and not fields.options.inline_weights:
            raise ValueError("mode: data-parallel needs neuronx.inline_weights: true")
        if fields.precision == "f32" and fields.names_precision and fields.options.auto_cast != "none":
            raise ValueError("precision: f32 needs neuronx.auto_cast: none")

    def instances_for(self, fields: EngineFields) -> str:
        options = fields.options
        return (
            f"trn2 with logical_nc_config {options.logical_nc_config}" if options.target == "trn2" else "inf2 or trn1"
        )

    def runs_here(self, fields: EngineFields) -> bool:
        try:
            check_target(fields.options.model_dump(), instance_type())
        except (ArtifactError, PlacementError):
            return False
        return super().runs_here(fields)

    def precision(self, fields: EngineFields, mitigations: Sequence[str]) -> str:
        return "f32" if MORE_EXACT in mitigations else str(fields.options.precision)

    def settings(self, fields: EngineFields, _: Callable[[], int]) -> dict[str, Any]:
        # DataParallel loads the graphs itself; graphs loaded before that would be loaded twice
        return {**fields.options.model_dump(mode="json"), "lazy_load": fields.mode == DATA_PARALLEL}

    def replaces_weights(self, settings: Mapping[str, Any]) -> bool:
        return not settings["inline_weights"]

    def arguments(self, settings: Mapping[str, Any], mitigations: Sequence[str]) -> list[str]:
        """The arguments of neuronx-cc."""
        cast = "none" if MORE_EXACT in mitigations else settings["auto_cast"]
        types = [] if cast == "none" else ["--auto-cast-type", settings["auto_cast_type"]]
        saturate = ["--enable-saturate-infinity"] if SATURATE in mitigations else []
        sharding = ["--logical-nc-config", str(settings["logical_nc_config"])] if settings["target"] == "trn2" else []
        return [
            *("--target", settings["target"], *sharding),
            *("--model-type", "transformer"),
            *("--auto-cast", cast, *types),
            *("--optlevel", str(settings["optlevel"])),
            *saturate,
            *settings["compiler_args"],
        ]

    def trace(self, request: Trace) -> tuple[Any, dict[str, Any]]:
        """The traced module, made without a Neuron device, and no additional fields to record."""
        settings = request.settings
        name_platform(settings["target"], os.environ, any(DEVICES.glob("neuron[0-9]*")))
        torch_neuronx = import_runtime(SDK)
        with typed_scalars():
            traced = torch_neuronx.trace(
                request.module,
                request.inputs,
                compiler_workdir=str(request.workdir),
                compiler_args=self.arguments(settings, request.mitigations),
                inline_weights_to_neff=settings["inline_weights"],
                cpu_backend=True,
            )
        if settings["dynamic_batch"]:
            traced = torch_neuronx.dynamic_batch(traced)
        if settings["lazy_load"]:
            torch_neuronx.lazy_load(traced)
        if settings["async_load"]:
            torch_neuronx.async_load(traced)
        return traced, {}

    def hardware_trials(self, cores: int, shape: str, target: str) -> dict[str, dict[str, Any]]:
        single_graph = {"shapes": {"exact": [shape]}}
        fast = ["--enable-fast-context-switch"]
        trials: dict[str, dict[str, Any]] = {
            CORE_PER_WORKER: {"core_groups": ",".join(["1"] * cores)},
            "exact": {**single_graph, "neuronx": {"auto_cast": "none", "optlevel": 1}},
            "all-bf16": {**single_graph, "neuronx": {"auto_cast": "all", "compiler_args": fast}},
            "separate-weights": {**single_graph, "neuronx": {"inline_weights": False}},
            "reused-graphs": {**single_graph, "neuronx": {"inline_weights": False}},  # the graphs of the trial before
            "dynamic-batch": {**single_graph, "neuronx": {"dynamic_batch": True, "async_load": True}},
            DATA_PARALLEL: {**single_graph, "core_groups": str(cores), "mode": DATA_PARALLEL},
        }
        return {
            name: {**fields, "neuronx": {"target": target, **fields.get("neuronx", {})}}
            for name, fields in trials.items()
        }

    def sdk_commands(self, target: str) -> dict[str, Sequence[str]]:
        python = ("env", f"{PLATFORM}={platform_of(target)}", sys.executable, "-c")
        return {
            "import": (*python, "import torch_neuronx; print(torch_neuronx.__name__)"),
            "list-operators": (SDK.compiler, "list-operators", "--framework", "XLA"),
            "analyze": (*python, ANALYZE),
        }


def platform_of(target: str) -> str:
    """The platform of a target of neuronx-cc."""
    return "trn1" if target == "trn1n" else target


def name_platform(target: str, environment: MutableMapping[str, str], has_device: bool) -> None:
    """Name the platform to compile for, before the SDK is imported: it looks for a device then, and fails without one.

    Source: `NEURON_PLATFORM_TARGET_OVERRIDE` in the guides of NKI, and optimum-neuron's pull request 961.

    Raises:
        CompileError: the variable names another platform.
    """
    platform = platform_of(target)
    if not has_device:
        environment.setdefault(PLATFORM, platform)
    named = environment.get(PLATFORM, platform)
    if PLATFORMS.get(named) != PLATFORMS[platform]:
        raise CompileError(f"{PLATFORM} is {named}, and neuronx.target is {target}", f"unset {PLATFORM}")


ENGINE = Neuronx()
