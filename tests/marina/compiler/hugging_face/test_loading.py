"""Folders that do not hold what a task needs, each refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from marina.compiler import compile_model
from marina.compiler.sources.folder import ModelFolder
from marina.errors import SourceError
from marina.project import Project
from marina.spec import Spec, make_spec, read_spec
from tests.conftest import no_progress, write_spec
from tests.embedders import edit_json
from tests.handlers.worker.tasks.architectures import ARCHITECTURES, save_model

TASKS = ("text-classification", "token-classification", "question-answering")


def spec(task: str, **fields: Any) -> Spec:
    return make_spec({"name": "m", "task": task, "source": {"path": "w"}, **fields})


@pytest.mark.parametrize("own", TASKS)
@pytest.mark.parametrize("asked", TASKS)
def test_the_architecture_decides_the_task(tmp_path: Path, own: str, asked: str) -> None:
    folder = save_model(tmp_path, "bert", own)
    if own == asked:
        ModelFolder(spec(asked), folder).export()
        return
    with pytest.raises(SourceError, match=r"source w is a BertFor\w+, and the task .* needs a \.\.\.For"):
        ModelFolder(spec(asked), folder).export()


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "roberta", "electra", "albert", "mpnet"])
def test_where_that_is_silent_the_heads_decide(tmp_path: Path, architecture: str) -> None:
    for own in TASKS:
        folder = save_model(tmp_path / own, architecture, own)
        edit_json(folder / "config.json", architectures=None)
        for asked in TASKS:
            if own == asked:
                ModelFolder(spec(asked), folder).export()
            else:
                with pytest.raises(SourceError, match="its weights are those of a \\.\\.\\.For"):
                    ModelFolder(spec(asked), folder).export()


@pytest.mark.skipif("modernbert" not in ARCHITECTURES, reason="this transformers has no ModernBERT")
def test_heads_that_look_alike_must_be_named(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "modernbert", "text-classification")
    edit_json(folder / "config.json", architectures=[])
    message = r"\.\.\.ForSequenceClassification and \.\.\.ForTokenClassification and .*; write \"architectures\""
    with pytest.raises(SourceError, match=message):
        ModelFolder(spec("text-classification"), folder).export()


@pytest.mark.parametrize("task", ["text-classification", "sentence-embedding"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, task: str, value: float) -> None:
    folder = save_model(tmp_path, "bert", task)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][3] = value
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(SourceError, match=r"word_embeddings.weight have NaN or infinite numbers; take a"):
        ModelFolder(spec(task), folder).export()


def test_code_of_a_folder_is_named_as_what_it_lacks(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "bert", "text-classification")
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
    edit_json(folder / "config.json", model_type="own", auto_map=own, padding="x" * 400)
    with pytest.raises(
        SourceError, match=r"needs Python code of its own \(auto_map in config.json\), which is not run"
    ):
        ModelFolder(spec("text-classification"), folder).export()


def compile_folder(project: Project, folder: Path, task: str) -> None:
    path = write_spec(project, "m", task=task, source={"path": str(folder)}, shapes={"exact": ["1x16"]})
    compile_model(read_spec(path), project, no_progress)


@pytest.mark.parametrize("task", ["sentence-embedding", "text-classification"])
def test_a_folder_without_a_tokenizer_is_refused(project: Project, tmp_path: Path, task: str) -> None:
    """transformers 5 makes up a tokenizer that knows no word."""
    folder = save_model(tmp_path / "w", "bert", task)
    for path in [*folder.glob("tokenizer*"), *folder.glob("special_tokens*"), *folder.glob("vocab*")]:
        path.unlink()
    with pytest.raises(SourceError, match=r"has no tokenizer files \(none of|cannot load (the tokenizer of )?source"):
        compile_folder(project, folder, task)


def test_a_tokenizer_that_knows_no_word_is_refused(project: Project, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "w", "bert", "text-classification")
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    vocabulary = {token: number for token, number in document["model"]["vocab"].items() if token.startswith("[")}
    document["model"]["vocab"] = vocabulary
    path.write_text(json.dumps(document))
    with pytest.raises(SourceError, match="knows no word: every text is made of special tokens alone"):
        compile_folder(project, folder, "text-classification")


def test_tokens_without_an_embedding_are_refused(project: Project, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "w", "bert", "text-classification", vocab_size=50)
    with pytest.raises(SourceError, match=r"numbers tokens up to \d+ .*the model has embeddings for 50; take the"):
        compile_folder(project, folder, "text-classification")


def test_what_is_no_model_is_said_in_one_line(project: Project, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "w", "bert", "text-classification")
    edit_json(folder / "config.json", model_type="no-such-model")
    with pytest.raises(SourceError, match="transformers cannot load source") as refused:
        compile_folder(project, folder, "text-classification")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"0": "bad", "2": "good"}, "id2label in its config.json has labels for 0, 2; write a label for each"),
        ({"bad": "0"}, "id2label in its config.json has labels for bad; write"),
        (["bad", "fair", "good"], "id2label in its config.json has a list; write"),
        ({"0": "bad"}, "its weights classifier.bias have another size than config.json says; restore"),
    ],
)
def test_labels_that_are_not_those_of_the_head(tmp_path: Path, labels: Any, message: str) -> None:
    folder = save_model(tmp_path, "bert", "text-classification")
    edit_json(folder / "config.json", id2label=labels)
    with pytest.raises(SourceError, match=f"^m: source w: {message}"):
        ModelFolder(spec("text-classification"), folder).export()
