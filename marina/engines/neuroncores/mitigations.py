"""Mitigations for Neuron graphs that compute NaN.

Since 4.21, transformers masks with the lowest float32, which becomes -inf when it is cast to 16
bits, and attention over such a mask is NaN (TorchServe's pull requests 2167 and 2283;
older releases masked with -10000). The mitigations on record are added one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FINITE_MASK = "finite-mask"  # mask with -10000, as transformers did
SATURATE = "saturate-infinity"  # --enable-saturate-infinity: infinities become the largest finite number
MORE_EXACT = "more-exact"  # cast fewer numbers
MASK = -10000.0

# the first step has no mitigation
LADDER: tuple[tuple[str, ...], ...] = (
    (),
    (FINITE_MASK,),
    (FINITE_MASK, SATURATE),
    (FINITE_MASK, SATURATE, MORE_EXACT),
)


@contextmanager
def finite_mask() -> Iterator[None]:
    """While active, traced models that mask with the lowest float32 mask with `MASK` instead."""
    import torch

    torch_finfo = torch.finfo

    class Finite:
        """`torch.finfo`, except for its lowest number."""

        def __init__(self, *args: Any) -> None:
            self._finfo = torch_finfo(*args)
            self.min = MASK

        def __getattr__(self, name: str) -> Any:
            return getattr(self._finfo, name)

    torch.finfo = Finite
    try:
        yield
    finally:
        torch.finfo = torch_finfo
