import json
from pathlib import Path
from typing import Any

import pytest

from marina.compiler.export import export_model
from marina.errors import SourceError
from marina.spec import Spec
from tests.conftest import save_tiny_model


def spec(task: str, **fields: Any) -> Spec:
    return Spec.model_validate({"name": "m", "task": task, "source": {"path": "w"}, **fields})


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
)
def test_pooling_is_read_from_the_models_own_files(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    folder = save_tiny_model(tmp_path, "sentence-embedding")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Normalize"}]))
    own: Any = export_model(spec("sentence-embedding"), folder).module
    assert (own.pooling, own.normalize) == (pooling, True)
    told: Any = export_model(spec("sentence-embedding", pooling="cls", normalize=False), folder).module
    assert (told.pooling, told.normalize) == ("cls", False)


def test_a_pooling_that_is_not_known_asks_for_the_specs(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "sentence-embedding")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    with pytest.raises(SourceError, match="is not known; set pooling in the spec"):
        export_model(spec("sentence-embedding"), folder)
    told: Any = export_model(spec("sentence-embedding", pooling="mean"), folder).module
    assert told.pooling == "mean"


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
