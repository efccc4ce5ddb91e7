"""The torch-neuronx engine: graphs on the NeuronCores of Inf2 and Trn1.

Source: the AWS Neuron SDK's reference of `torch_neuronx.trace`, `torch_neuronx.DataParallel`,
`torch_neuronx.replace_weights` and `torch_neuronx.move_trace_to_device`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handlers.worker.engines import Runtime, Setup
from handlers.worker.engines.neuroncores import NeuronRuntime
from handlers.worker.engines.packages import INDEX, NeuronSdk, check_versions, import_runtime
from handlers.worker.engines.releases import INF2, INSTALLABLE, NO_TRN3, minor
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import NEURONCORES
from handlers.worker.placement.discovery import LOGICAL_CORES, instance_type, physical_cores

CORES = NEURONCORES
# the versions of NeuronCores of a family of instances (trn2u has those of trn2), by the SDK's pages on architectures
CORE_VERSIONS = {"inf2": 2, "trn1": 2, "trn2": 3, "trn3": 4}
SDK = NeuronSdk(
    engine="neuronx",
    runtime="torch-neuronx",
    module="torch_neuronx",
    compiler="neuronx-cc",
    programs=("libneuronpjrt-path",),
    below=INF2.framework_below,
    install=(
        f"pip install {INDEX} 'torch-neuronx=={minor(INSTALLABLE.framework)}' "
        f"'neuronx-cc=={minor(INSTALLABLE.compiler)}'"
    ),
)


def open_runtime(setup: Setup) -> Runtime:
    """Open torch-neuronx on the cores that this process may see.

    Raises:
        ArtifactError: the package is missing, is a placeholder or has a different version from the
            graphs, they are for other instances than this one, or the core group does not fit the mode.
        PlacementError: the logical cores of this instance are set to a wrong number.
    """
    if setup.mode == "pipeline":
        raise ArtifactError("mode: pipeline belongs to the engine neuron; only Inf1 has it")
    check_versions(SDK, setup.versions)
    check_target(setup.compiler, instance_type())
    torch_neuronx = import_runtime(SDK)

    def put_weights(module: Any, weights: dict[str, Any] | None) -> None:
        if weights is not None:
            torch_neuronx.replace_weights(module, weights)
        # cores are numbered from 0 within a process; without this, every call would transfer the weights again
        torch_neuronx.move_trace_to_device(module, 0)

    separate = not setup.compiler.get("inline_weights", True)
    return NeuronRuntime(setup, SDK.runtime, torch_neuronx.DataParallel, put_weights=put_weights if separate else None)


def check_target(compiler: Mapping[str, Any], instance: str) -> None:
    """Check that graphs run on an instance, by the compiler's settings that are recorded with them.

    Source of the second check: AWS's page on the logical NeuronCore configuration.

    Raises:
        ArtifactError: its NeuronCores are of another version, or its logical cores of other size.
        PlacementError: that number is set wrongly.
    """
    target, family = compiler.get("target", "")[:4], instance[:4]
    if not {target, family} <= CORE_VERSIONS.keys():
        return
    if CORE_VERSIONS[target] != CORE_VERSIONS[family]:
        raise ArtifactError(
            f"the graphs were compiled for {target}, and this is a {instance} with other NeuronCores",
            NO_TRN3 if family == "trn3" else f"compile with neuronx.target: {family}",
        )
    compiled, present = compiler.get("logical_nc_config", 2), physical_cores(instance)
    if target == "trn2" and compiled != present:
        raise ArtifactError(
            f"the graphs were compiled for logical cores of {compiled} physical ones, and those of this {instance} "
            f"have {present}",
            f"set {LOGICAL_CORES}={compiled}, or compile with neuronx.logical_nc_config: {present}",
        )
