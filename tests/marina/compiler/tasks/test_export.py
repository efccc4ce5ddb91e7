from pathlib import Path
from typing import Any

import pytest

from marina.compiler.tasks import export_model
from marina.errors import SourceError
from marina.spec import Spec, make_spec
from tests.conftest import save_tiny_model


def spec(task: str, **fields: Any) -> Spec:
    return make_spec({"name": "m", "task": task, "source": {"path": "w"}, **fields})


@pytest.mark.parametrize(
    ("options", "activation"),
    [
        ({"num_labels": 3}, "softmax"),
        ({"num_labels": 1}, "sigmoid"),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "sigmoid"),
        ({"num_labels": 1, "problem_type": "regression"}, "none"),
    ],
)
def test_the_activation_is_that_of_the_pipeline(tmp_path: Path, options: dict[str, Any], activation: str) -> None:
    folder = save_tiny_model(tmp_path, "text-classification", **options)
    assert export_model(spec("text-classification"), folder).heads["logits"].activation == activation


def test_an_encoder_without_a_head_is_no_classifier(tiny_models: dict[str, Path]) -> None:
    with pytest.raises(SourceError, match=r"has no weights for classifier\.bias .*not trained for the task"):
        export_model(spec("text-classification"), tiny_models["sentence-embedding"])


def test_a_model_that_transformers_cannot_load_says_why(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "text-classification")
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(SourceError, match="transformers cannot load source w"):
        export_model(spec("text-classification"), folder)
