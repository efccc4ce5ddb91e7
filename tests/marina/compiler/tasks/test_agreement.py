from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marina.compiler.precision.choice import PrecisionTrial
from marina.compiler.tasks.agreement import cosines_of, f1
from marina.compiler.tasks.multi_vector_embedding import agree as agree_on_vectors
from marina.compiler.tasks.sentence_embedding import agree as agree_on_embeddings
from marina.compiler.tasks.tensors import agree as agree_on_tensors
from marina.compiler.tasks.text_classification import agree, same_results
from marina.spec import make_spec


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


@pytest.mark.parametrize(
    ("expected", "actual", "cosine"),
    [
        ([3.0, 4.0], [6.0, 8.0], 1.0),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, 0.0], [-1.0, 0.0], -1.0),
        ([0.0, 0.0], [0.0, 0.0], 1.0),
        ([0.0, 0.0], [1.0, 0.0], 0.0),
        ([1.0, 0.0], [0.0, 0.0], 0.0),
        ([1.0, 0.0], [np.nan, 0.0], 0.0),
        ([0.0, 0.0], [np.nan, 0.0], 0.0),
        ([1.0, 0.0], [np.inf, 0.0], 0.0),
        ([0.0, 1.0], [-np.inf, 0.0], 0.0),
    ],
)
def test_a_cosine_is_a_number_whatever_a_graph_gives(expected: list[float], actual: list[float], cosine: float) -> None:
    assert cosines_of(np.array([expected]), np.array([actual])) == pytest.approx([cosine])


@pytest.mark.parametrize("judge", [agree_on_embeddings, agree_on_vectors, agree_on_tensors])
@pytest.mark.parametrize(("second", "value"), [([0.0, 0.0, 0.0], 1.0), ([np.nan, 0.0, 0.0], 0.5)])
def test_a_text_without_a_direction_spoils_no_agreement(judge: Any, second: list[float], value: float) -> None:
    """As of a bag of words for an empty text, whose outputs are zero, or of a graph in which they overflow."""
    shape = (1, 3) if judge is agree_on_vectors else (3,)
    references = [np.ones(shape), np.zeros(shape)]
    rows: Any = [SimpleNamespace(outputs=[output], row=SimpleNamespace(ids=[5])) for output in references]
    outputs = [[np.ones(shape, np.float32)], [np.array(second, np.float32).reshape(shape)]]
    judged = judge(rows, outputs, None, None, {})
    assert judged.value == pytest.approx(value)
    trial = PrecisionTrial("int8", judged)
    spec = make_spec({"name": "m", "task": "sentence-embedding", "source": {"path": "p"}})
    assert trial.entry(spec)["passed"] == trial.passes(spec) == (value == 1.0)


def test_f1_counts_spans_of_all_texts() -> None:
    assert f1([{1, 2}, {3}], [{1}, {3, 4}]) == pytest.approx(2 * 2 / 6)
    assert f1([set(), set()], [set(), set()]) == 1.0
