"""The torch-neuron engine: graphs on the NeuronCores of Inf1.

Source: the AWS Neuron SDK's reference of `torch_neuron.trace`, `torch.neuron.DataParallel`, and core placement
(`torch_neuron.experimental.multicore_context`).
"""

from __future__ import annotations

from handlers.worker.engines import Runtime, Setup
from handlers.worker.engines.neuroncores import NeuronRuntime
from handlers.worker.engines.packages import INDEX, NeuronSdk, check_versions, import_runtime
from handlers.worker.engines.releases import INF1, minor
from handlers.worker.placement import NEURONCORES

CORES = NEURONCORES
SDK = NeuronSdk(
    engine="neuron",
    runtime="torch-neuron",
    module="torch_neuron",
    compiler="neuron-cc",
    programs=(),
    below=INF1.framework_below,
    install=f"pip install {INDEX} 'torch-neuron=={minor(INF1.framework)}' "
    f"'neuron-cc[tensorflow]=={minor(INF1.compiler)}' "
    "'numpy<1.24' 'protobuf<3.20.2'",
)


def open_runtime(setup: Setup) -> Runtime:
    """Open torch-neuron on the cores that this process may see.

    Raises:
        ArtifactError: the package is missing, is a placeholder or has a different version from the
            graphs, or the core group does not fit the mode.
    """
    check_versions(SDK, setup.versions)
    torch_neuron = import_runtime(SDK)  # registers the operators that graphs are made of, and torch.neuron
    import torch

    return NeuronRuntime(
        setup, SDK.runtime, torch.neuron.DataParallel, replicate=torch_neuron.experimental.multicore_context
    )
