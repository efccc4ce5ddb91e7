"""The torch-neuron engine: graphs on the NeuronCores of Inf1.

Source: the AWS Neuron SDK's reference of `torch_neuron.trace` and `torch.neuron.DataParallel`.
"""

from __future__ import annotations

from handlers.worker.engines import Runtime, Setup
from handlers.worker.engines.neuroncores import NeuronRuntime
from handlers.worker.engines.packages import INDEX, NeuronSdk, check_versions
from handlers.worker.placement import NEURONCORES

CORES = NEURONCORES
SDK = NeuronSdk(
    engine="neuron",
    runtime="torch-neuron",
    compiler="neuron-cc",
    install=f"pip install {INDEX} 'torch-neuron==1.13.1.*' 'neuron-cc[tensorflow]==1.24.*' protobuf",
)


def open_runtime(setup: Setup) -> Runtime:
    """Open torch-neuron on the cores that this process may see.

    Raises:
        ArtifactError: the package is missing, is a placeholder or of another version than the
            graphs, or the core group does not fit the mode.
    """
    check_versions(SDK, setup.versions)
    import torch
    import torch_neuron  # noqa: F401  registers the operators that graphs are made of, and torch.neuron

    return NeuronRuntime(setup, SDK.runtime, torch.neuron.DataParallel)
