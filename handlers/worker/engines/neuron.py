"""The torch-neuron engine: graphs on the NeuronCores of Inf1.

Source: the AWS Neuron SDK's reference of `torch_neuron.trace` and `torch.neuron.DataParallel`.
"""

from __future__ import annotations

from handlers.worker.engines import Engine, Setup
from handlers.worker.engines.neuroncores import NeuronEngine
from handlers.worker.engines.packages import check_versions


def open_engine(setup: Setup) -> Engine:
    """Open torch-neuron on the cores that this process may see.

    Raises:
        ArtifactError: the package is missing, is a placeholder or of another version than the
            graphs, or the core group does not fit the mode.
    """
    check_versions("neuron", setup.versions)
    import torch
    import torch_neuron  # noqa: F401  registers the operators that graphs are made of, and torch.neuron

    return NeuronEngine(setup, "torch-neuron", torch.neuron.DataParallel)
