from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marina.compiler.tasks.agreement import f1
from marina.compiler.tasks.text_classification import agree, same_results


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


@pytest.mark.parametrize(
    ("activation", "parameters", "actual", "agrees"),
    [
        ("sigmoid", {"thresholds": {"spam": 0.9}}, [2.1, 1.0], False),  # spam is first no more
        ("sigmoid", {"thresholds": {"spam": 0.9}}, [2.25, 1.0], True),
        ("sigmoid", {"thresholds": {"spam": 0.9}}, [2.25, -1.0], False),  # another set
        ("softmax", {"thresholds": {"spam": 0.9}, "function_to_apply": "sigmoid"}, [2.1, 1.0], False),
        ("softmax", {"thresholds": {"spam": 0.75}}, [2.1, 1.1], False),
        ("softmax", {"thresholds": {"another": 0.75}}, [2.1, 1.1], True),
    ],
)
def test_answers_are_judged_by_the_decision_that_is_served(
    activation: str, parameters: dict[str, Any], actual: list[float], agrees: bool
) -> None:
    head: Any = SimpleNamespace(labels=["spam", "advert"], activation=activation)
    signature: Any = SimpleNamespace(outputs=("logits",), heads={"logits": head})
    rows: Any = [SimpleNamespace(outputs=[np.array([2.3, 1.0])])]
    tokenizer: Any = None
    judged = agree(rows, [[np.array(actual)]], signature, tokenizer, parameters)
    assert judged.value == float(agrees)


def test_f1_counts_spans_of_all_texts() -> None:
    assert f1([{1, 2}, {3}], [{1}, {3, 4}]) == pytest.approx(2 * 2 / 6)
    assert f1([set(), set()], [set(), set()]) == 1.0
