"""Numbers that masks are filled with have the type of their tensors, and the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from marina.engines.scalars import typed_scalars


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """The names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(operator))
        return operator(*args, **(kwargs or {}))


MASK = torch.tensor([True, False])


@pytest.mark.parametrize(
    "fill",
    [
        lambda tensor: tensor.masked_fill(MASK, -1e9),
        lambda tensor: tensor.masked_fill(mask=MASK, value=-1e9),
        lambda tensor: tensor.clone().masked_fill_(MASK, -1e9),
        lambda tensor: torch.masked_fill(tensor, MASK, -1e9),
        lambda tensor: tensor.masked_fill(MASK, torch.tensor(-1e9)),
    ],
)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_fill_is_typed_and_unchanged(fill: Callable[[torch.Tensor], torch.Tensor], kind: torch.dtype) -> None:
    tensor = torch.tensor([1.0, 2.0], dtype=kind)
    with typed_scalars(), Operators() as operators:
        filled = fill(tensor)
    assert torch.equal(filled, fill(tensor))
    assert next(name for name in operators.names if "masked_fill" in name).endswith(".Tensor")


def test_other_functions_are_as_they_were() -> None:
    tensor = torch.tensor([3, 4])
    with typed_scalars():
        assert torch.equal(tensor.masked_fill(MASK, 7), torch.tensor([7, 4]))
        assert torch.equal(torch.add(tensor, 1), torch.tensor([4, 5]))
