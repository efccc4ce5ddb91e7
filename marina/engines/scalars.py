"""Keeps 64-bit floats out of graphs that PyTorch/XLA lowers.

`masked_fill` with a number of Python puts that number into the graph in 64 bits, and converts it there. AWS lists no
64-bit floats among the data types of NeuronCores (about-neuron/arch/neuron-features/data-types.rst).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

ARGUMENTS = ("input", "mask", "value")


def typed_scalars() -> AbstractContextManager[Any]:
    """While active, numbers that `masked_fill` fills with have the data type of the tensor that they go into."""
    import torch
    from torch.overrides import TorchFunctionMode

    fills = (torch.masked_fill, torch.Tensor.masked_fill, torch.Tensor.masked_fill_)

    class TypedScalars(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in fills:
                named = {**dict(zip(ARGUMENTS, args, strict=False)), **(kwargs or {})}
                tensor, mask, value = (named[name] for name in ARGUMENTS)
                if isinstance(value, (int, float)) and tensor.is_floating_point():
                    value = torch.full((), value, dtype=tensor.dtype, device=tensor.device)
                return function(tensor, mask, value)
            return function(*args, **(kwargs or {}))

    return TypedScalars()
