import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from handlers.worker.tasks.activation import activate
from marina.compiler.sources.folder import ModelFolder
from marina.errors import SourceError
from marina.spec import Spec, make_spec
from tests.conftest import save_tiny_model
from tests.embedders import edit_json


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
    assert ModelFolder(spec("text-classification"), folder).export().heads["logits"].activation == activation


IDENTITY = "torch.nn.modules.linear.Identity"
PAIRS = [("change company address", "where is my invoice"), ("reset my password", "change company address")]


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("config.json", {"sbert_ce_default_activation_function": IDENTITY}),
        ("config.json", {"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.1.0"}}),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}),
        ("config.json", {"sentence_transformers": {"activation_fn": "somewhere.Else", "version": "4.1.0"}}),
        ("config.json", {"sentence_transformers": {"version": "4.1.0"}}),
    ],
)
def test_a_cross_encoder_scores_as_its_library_does(
    tmp_path: Path, labels: int, file: str, fields: dict[str, Any]
) -> None:
    from sentence_transformers import CrossEncoder

    folder = save_tiny_model(tmp_path, "text-classification", num_labels=labels)
    edit_json(folder / file, **fields)
    exported = ModelFolder(spec("text-classification"), folder).export()
    with torch.inference_mode():
        encoded = exported.tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
        (logits,) = exported.module(*(encoded[name].int() for name in exported.inputs))
    scores = activate(logits.numpy(), exported.heads["logits"].activation)
    expected = CrossEncoder(str(folder), device="cpu", local_files_only=True).predict(PAIRS)
    np.testing.assert_allclose(scores.reshape(expected.shape), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation_fn": nn.Tanh()}, "with the activation Tanh; only Identity and Sigmoid are supported; save it"),
        (
            {"prompts": {"query": "query: "}, "default_prompt_name": "query"},
            "that puts the prompt 'query' before texts, .*; set default_prompt_name to null",
        ),
    ],
)
def test_a_cross_encoder_that_scores_otherwise_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    from sentence_transformers import CrossEncoder

    folder = save_tiny_model(tmp_path / "trained", "text-classification", num_labels=1)
    CrossEncoder(str(folder), device="cpu", local_files_only=True, **options).save_pretrained(str(tmp_path / "w"))
    with pytest.raises(SourceError, match=f"source w is a CrossEncoder of sentence-transformers {message}"):
        ModelFolder(spec("text-classification"), tmp_path / "w").export()


def test_a_cross_encoder_that_its_library_wrote_scores_the_same(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = save_tiny_model(tmp_path / "trained", "text-classification", num_labels=1)
    model = CrossEncoder(str(folder), device="cpu", local_files_only=True, activation_fn=nn.Identity())
    model.save_pretrained(str(tmp_path / "w"))
    assert ModelFolder(spec("text-classification"), tmp_path / "w").export().heads["logits"].activation == "none"


def test_a_cross_encoder_with_further_modules_is_refused(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "text-classification", num_labels=1)
    edit_json(folder / "config.json", sentence_transformers={"activation_fn": IDENTITY})
    types = ["sentence_transformers.base.modules.Transformer", "sentence_transformers.base.modules.Dense"]
    modules = [{"idx": number, "name": str(number), "path": "", "type": kind} for number, kind in enumerate(types)]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(SourceError, match="with the modules Transformer, Dense; only a Transformer alone"):
        ModelFolder(spec("text-classification"), folder).export()


def test_an_encoder_without_a_head_is_no_classifier(tiny_models: dict[str, Path]) -> None:
    with pytest.raises(SourceError, match=r"has no weights for classifier\.bias .*not trained for the task"):
        ModelFolder(spec("text-classification"), tiny_models["sentence-embedding"]).export()


def test_a_model_that_transformers_cannot_load_says_why(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "text-classification")
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(SourceError, match="transformers cannot load source w"):
        ModelFolder(spec("text-classification"), folder).export()
