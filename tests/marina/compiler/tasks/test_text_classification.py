"""Several heads on one encoder, against the eager encoder and the heads' own weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.compiler.tasks.wrappers import HeadsModel
from marina.errors import CompileError, SourceError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import no_progress, save_tiny_model, scores, write_spec
from tests.embedders import WIDTH
from tests.settings import make_settings

HEADS: dict[str, dict[str, Any]] = {
    "kind": {"labels": ["a", "b", "c"]},
    "same": {"labels": ["no", "yes"], "activation": "sigmoid"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    folder = save_tiny_model(tmp_path / "w", "sentence-embedding")
    weights: dict[str, torch.Tensor] = {}
    for name, head in HEADS.items():
        linear = torch.nn.Linear(WIDTH, len(head["labels"]))
        weights |= {f"{name}.{part}": value.detach() for part, value in linear.named_parameters()}
    save_file(weights, folder / "heads.safetensors")
    return folder


def open_model(project: Project, folder: Path, **fields: Any) -> Model:
    fields = {"source": {"path": str(folder)}, "shapes": {"exact": ["1x16", "4x40"]}, "heads": HEADS, **fields}
    path = write_spec(project, "m", task="text-classification", **fields)
    artifact = compile_model(read_spec(path), project, no_progress).folder
    return Model(
        artifact,
        make_settings(),
        TASKS,
    )


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last", None])
def test_each_head_scores_the_pooled_tokens(project: Project, folder: Path, pooling: str | None) -> None:
    model = open_model(project, folder, **({"pooling": pooling} if pooling else {}))
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    from safetensors.torch import load_file

    weights = load_file(folder / "heads.safetensors")
    for inputs in ("change company address", {"text": "ok", "text_pair": "thanks, ok"}):
        texts = [inputs] if isinstance(inputs, str) else list(inputs.values())
        with torch.no_grad():
            vectors = encoder(**tokenizer(*texts, return_tensors="pt")).last_hidden_state[0]
        pooled = {"cls": vectors[0], "max": vectors.max(0).values, "last": vectors[-1]}.get(
            str(pooling), vectors.mean(0)
        )
        logits = {name: weights[f"{name}.weight"] @ pooled + weights[f"{name}.bias"] for name in HEADS}
        expected = {"kind": logits["kind"].softmax(0), "same": logits["same"].sigmoid()}
        (reply,) = model.reply([(json.dumps({"inputs": inputs}).encode(), {"content-type": "application/json"})])
        answer = json.loads(reply.body)
        for name, head in HEADS.items():
            found = scores(answer[name])
            assert [found[label] for label in head["labels"]] == pytest.approx(expected[name].tolist(), abs=1e-5)


def test_a_wrapper_that_gives_the_heads_in_another_order_is_refused(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = HeadsModel.forward
    monkeypatch.setattr(HeadsModel, "forward", lambda *args: tuple(reversed(forward(*args))))
    with pytest.raises(CompileError, match=r"^m: graph 1x16: output 'kind' of a row has the shape \(2,\)"):
        open_model(project, folder)


def test_heads_of_other_sizes_are_refused(project: Project, folder: Path) -> None:
    heads = {**HEADS, "kind": {"labels": ["a", "b"]}}
    with pytest.raises(SourceError, match=r"heads\.safetensors does not fit the spec's heads"):
        open_model(project, folder, heads=heads)
