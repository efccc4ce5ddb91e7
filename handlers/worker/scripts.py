"""Loads TorchScript files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def load_script(path: Path, map_location: str | None = None) -> Any:
    """The module in a TorchScript file, on the device where it was saved, or on `map_location`.

    The file is code, which runs when the module is called.

    Raises:
        RuntimeError, ValueError, OSError: the file cannot be loaded.
    """
    import torch

    with warnings.catch_warnings():
        # deprecated in PyTorch, but the Neuron SDK ships graphs in this form
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.load(str(path), map_location=map_location)
