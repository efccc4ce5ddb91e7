import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.tasks.activation import activate

logits = st.lists(st.floats(-50, 50), min_size=1, max_size=8).map(np.array)


@given(logits)
def test_softmax_and_sigmoid_are_those_of_torch(values: np.ndarray) -> None:
    assert activate(values, "softmax") == pytest.approx(torch.tensor(values).softmax(-1).numpy())
    assert activate(values, "sigmoid") == pytest.approx(torch.tensor(values).sigmoid().numpy())
    assert (activate(values, "none") == values).all()


def test_scores_of_logits_that_are_far_apart_do_not_overflow() -> None:
    with np.errstate(over="raise"):
        assert activate(np.array([1000.0, -1000.0]), "softmax").tolist() == [1.0, 0.0]
        assert activate(np.array([1000.0, -1000.0]), "sigmoid").tolist() == [1.0, 0.0]
