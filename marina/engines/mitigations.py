"""What is done when a Neuron graph computes what is not a number.

Since 4.21 transformers masks with the least float32, which becomes -inf where it is cast to 16
bits, and attention over such a mask is not a number (TorchServe's pull requests 2167 and 2283;
older releases masked with -10000). The remedies that are on record are added one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FINITE_MASK = "finite-mask"  # mask with -10000, as transformers did
SATURATE = "saturate-infinity"  # --enable-saturate-infinity: infinities become the largest number
MORE_EXACT = "more-exact"  # cast less
MASK = -10000.0

# the first is none
LADDER: tuple[tuple[str, ...], ...] = (
    (),
    (FINITE_MASK,),
    (FINITE_MASK, SATURATE),
    (FINITE_MASK, SATURATE, MORE_EXACT),
)


@contextmanager
def finite_mask() -> Iterator[None]:
    """Let models that are traced meanwhile mask with `MASK` wherever they ask for the least float32."""
    import torch

    own = torch.finfo

    class Finite:
        """`torch.finfo`, but for its least number."""

        def __init__(self, *args: Any) -> None:
            self._own = own(*args)
            self.min = MASK

        def __getattr__(self, name: str) -> Any:
            return getattr(self._own, name)

    torch.finfo = Finite
    try:
        yield
    finally:
        torch.finfo = own
