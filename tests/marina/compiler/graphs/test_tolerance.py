"""The tolerance of graphs that cannot be run here, from the same rounding on this CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from handlers.worker.members.golden import GoldenRow
from handlers.worker.values import Instance, Row
from marina.compiler.graphs.tolerance import tolerance
from marina.engines import engine_of
from marina.errors import CompileError
from marina.spec import make_spec


class Fixed(torch.nn.Module):  # type: ignore[misc]
    """Gives the same output for every row."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, *_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (torch.tensor([[1.0, self.value]]),)


def estimated(value: float) -> float:
    fields = {"name": "m", "task": "text-classification", "source": {"path": "p"}, "engine": "neuronx"}
    job: Any = SimpleNamespace(spec=make_spec(fields), engine=engine_of("neuronx"))
    model: Any = SimpleNamespace(
        module=Fixed(value), tensors={}, roles={}, padding_position=None, inputs=("input_ids", "attention_mask")
    )
    rows = [GoldenRow(Instance("a"), Row([5, 6], [0, 0]), [np.array([1.0, 0.5])])]
    not_run: Any = [SimpleNamespace(parity=None)]
    return tolerance(job, model, rows, not_run, "bf16")


def test_an_estimate_has_a_margin() -> None:
    assert estimated(0.75) == 2.0  # 4 times 0.3, rounded up to one digit
    assert 0 < estimated(0.5) < 0.01


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_outputs_that_are_not_finite_give_no_tolerance(value: float) -> None:
    with pytest.raises(CompileError, match=r"m: the effect of bf16 on outputs .* they are NaN or infinite"):
        estimated(value)
