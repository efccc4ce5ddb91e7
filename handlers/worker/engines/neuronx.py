"""The torch-neuronx engine: graphs on the NeuronCores of Inf2 and Trn1.

Source: the AWS Neuron SDK's reference of `torch_neuronx.trace`, `torch_neuronx.DataParallel`,
`torch_neuronx.replace_weights` and `torch_neuronx.move_trace_to_device`.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.engines import Runtime, Setup
from handlers.worker.engines.neuroncores import NeuronRuntime
from handlers.worker.engines.packages import INDEX, NeuronSdk, check_versions, import_runtime
from handlers.worker.engines.releases import INF2, minor
from handlers.worker.errors import ArtifactError
from handlers.worker.placement import NEURONCORES
from handlers.worker.placement.discovery import instance_type

CORES = NEURONCORES
# the versions of NeuronCores that graphs for an instance run on, by the SDK's pages on its architecture
CORE_VERSIONS = {"inf2": 2, "trn1": 2, "trn1n": 2, "trn2": 3, "trn2u": 3, "trn3": 4}
SDK = NeuronSdk(
    engine="neuronx",
    runtime="torch-neuronx",
    module="torch_neuronx",
    compiler="neuronx-cc",
    programs=("libneuronpjrt-path",),
    below=INF2.framework_below,
    install=f"pip install {INDEX} 'torch-neuronx=={minor(INF2.framework)}' 'neuronx-cc=={minor(INF2.compiler)}'",
)


def open_runtime(setup: Setup) -> Runtime:
    """Open torch-neuronx on the cores that this process may see.

    Raises:
        ArtifactError: the package is missing, is a placeholder or has a different version from the
            graphs, they are for other instances than this one, or the core group does not fit the mode.
    """
    if setup.mode == "pipeline":
        raise ArtifactError("mode: pipeline belongs to the engine neuron; only Inf1 has it")
    check_versions(SDK, setup.versions)
    check_target(setup.compiler.get("target", ""), instance_type())
    torch_neuronx = import_runtime(SDK)

    def put_weights(module: Any, weights: dict[str, Any] | None) -> None:
        if weights is not None:
            torch_neuronx.replace_weights(module, weights)
        # cores are numbered from 0 within a process; without this, every call would transfer the weights again
        torch_neuronx.move_trace_to_device(module, 0)

    separate = not setup.compiler.get("inline_weights", True)
    return NeuronRuntime(setup, SDK.runtime, torch_neuronx.DataParallel, put_weights=put_weights if separate else None)


def check_target(target: str, instance: str) -> None:
    """Check that graphs for a target run on an instance; ArtifactError if its NeuronCores are of another version."""
    family = instance.partition(".")[0]
    if {target, family} <= CORE_VERSIONS.keys() and CORE_VERSIONS[target] != CORE_VERSIONS[family]:
        raise ArtifactError(
            f"the graphs were compiled for {target}, and this is a {instance} with other NeuronCores",
            f"compile with neuronx.target: {family}",
        )
