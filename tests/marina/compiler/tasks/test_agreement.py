import numpy as np
import pytest

from marina.compiler.tasks.agreement import f1
from marina.compiler.tasks.text_classification import same_results


@pytest.mark.parametrize(
    ("activation", "found", "expected"),
    [
        ("softmax", [[2.0, 1.0], [1.0, 2.0]], [True, False]),
        ("sigmoid", [[0.1, -3.0], [0.5, 0.5]], [True, False]),
        ("none", [[3.05, -1.02], [1.0, 5.0]], [True, False]),
    ],
)
def test_outputs_are_alike_when_they_mean_the_same(
    activation: str, found: list[list[float]], expected: list[bool]
) -> None:
    reference = np.array([[3.0, -1.0], [1.0, -1.0]]) if activation != "none" else np.array([[3.0, -1.0], [1.0, 1.0]])
    assert same_results(reference, np.array(found), activation).tolist() == expected


def test_f1_counts_spans_of_all_texts() -> None:
    assert f1([{1, 2}, {3}], [{1}, {3, 4}]) == pytest.approx(2 * 2 / 6)
    assert f1([set(), set()], [set(), set()]) == 1.0
