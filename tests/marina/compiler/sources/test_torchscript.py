"""TorchScript modules as the source: served as they answer themselves, or refused with the reason."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoTokenizer

from handlers.worker.answering.model import Model
from handlers.worker.errors import ArtifactError
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.errors import CompileError, MarinaError, SourceError, SpecError
from marina.project import Project
from marina.spec import read_spec
from tests import scripted
from tests.conftest import ENGINES, WORDS, make_project, no_progress, scores, write_spec
from tests.settings import make_settings

LABELS = ["bad", "fair", "good"]
HALVES = {"attention_mask": "float16", "position_ids": "int64", "valid_length": "int64", "token_type_ids": "int32"}
FIVE: dict[str, Any] = {
    "task": "text-classification",
    "source": {"torchscript": "files/FiveInputs.pt", "trusted": True},
    "tokenizer": "files/tokenizer",
    "inputs": {"input_ids": "int64", **HALVES},
    "outputs": {"quality": {"labels": LABELS}},
    "shapes": {"exact": ["1x16", "4x16", "4x64"]},
}
TWO: dict[str, Any] = {
    **FIVE,
    "task": "tensors",
    "source": {"torchscript": "files/MaskFirst.pt", "trusted": True},
    "inputs": {"attention_mask": "float16", "input_ids": "int64"},
    "outputs": {"scores": {}, "vectors": {}},
}
WEIGHTED: dict[str, Any] = {
    "task": "text-classification",
    "source": {"torchscript": "files/Weighted.pt", "trusted": True},
    "preprocess": "files/Letters.pt",
    "fields": ["title", "body"],
    "inputs": {"input_ids": "int64", "weights": "float32", "language": "int64", "attention_mask": "float16"},
    "outputs": {"quality": {"labels": LABELS}},
    "shapes": {"exact": ["1x16", "4x64", "4x1024"]},
}
JSON = {"content-type": "application/json"}
texts = st.lists(st.sampled_from([*WORDS, "ok", " ".join(WORDS), "çà 日本"]), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("scripted"))
    scripted.save_files(project.root / "files")
    return project


def served(project: Project, engine: str, **fields: Any) -> Model:
    spec = read_spec(write_spec(project, "m", **{**fields, "engine": engine}))
    return Model(compile_model(spec, project, no_progress).folder, make_settings(), TASKS)


def ask(model: Model, inputs: Any) -> Any:
    (reply,) = model.reply([(json.dumps({"inputs": inputs}).encode(), JSON)])
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def load(project: Project, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.load(str(project.root / "files" / f"{name}.pt"))


def tokens(project: Project, text: str) -> Tensor:
    tokenizer = AutoTokenizer.from_pretrained(project.root / "files" / "tokenizer")
    found: Tensor = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")["input_ids"]
    return found


@pytest.fixture(scope="module", params=ENGINES)
def five(project: Project, request: pytest.FixtureRequest) -> Model:
    return served(project, request.param, **FIVE)


@settings(max_examples=20)
@given(texts)
def test_five_inputs_in_another_order_with_a_mask_in_half_precision(
    five: Model, project: Project, batch: list[str]
) -> None:
    module = load(project, "FiveInputs")
    for text, answer in zip(batch, ask(five, batch), strict=True):
        ids = tokens(project, text)
        count = ids.shape[1]
        with torch.no_grad():
            logits = module(
                ids,
                torch.ones(1, count, dtype=torch.float16),
                torch.arange(count).unsqueeze(0),
                torch.tensor([count]),
                torch.zeros(1, count, dtype=torch.int32),
            )
        assert scores(answer) == pytest.approx(dict(zip(LABELS, logits[0].softmax(-1).tolist(), strict=True)), abs=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_as_they_are(project: Project, engine: str) -> None:
    model, module = served(project, engine, **TWO), load(project, "MaskFirst")
    for text in ("ok", " ".join(WORDS)):
        ids = tokens(project, text)
        with torch.no_grad():
            values, vectors = module(torch.ones_like(ids).half(), ids)
        answer = ask(model, text)
        assert np.abs(np.array(answer["scores"]) - values[0].numpy()).max() < 1e-4
        assert np.array(answer["vectors"]).shape == vectors[0].shape
        assert np.abs(np.array(answer["vectors"]) - vectors[0].numpy()).max() < 1e-4
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["ok"]}]}
    (reply,) = model.reply([(json.dumps(body).encode(), JSON)])
    outputs = {output["name"]: output for output in json.loads(reply.body)["outputs"]}
    assert outputs["scores"]["datatype"] == "FP32"
    assert outputs["vectors"]["shape"][::2] == [1, scripted.WIDTH]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_pooled_and_normalized_vectors(project: Project, engine: str, pooling: str) -> None:
    class Vectors(scripted.ByName):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            types, positions = torch.zeros_like(input_ids), torch.arange(input_ids.shape[1]).unsqueeze(0)
            return self.vectors(input_ids, types, positions.expand_as(input_ids), attention_mask.float())

    scripted.save(Vectors(), project.root / "files" / "Vectors.pt")
    changes = {"source": {"torchscript": "files/Vectors.pt", "trusted": True}, "task": "sentence-embedding"}
    outputs = {"outputs": {"vector": {"pooling": pooling}}, "normalize": True}
    fields = {name: value for name, value in FIVE.items() if name != "inputs"}
    model = served(project, engine, **{**fields, **changes, **outputs})
    ids = tokens(project, "change address")
    with torch.no_grad():
        vectors = load(project, "Vectors")(ids, torch.ones_like(ids))[0]
    pooled = {"mean": vectors.mean(0), "cls": vectors[0], "max": vectors.max(0).values, "last": vectors[-1]}[pooling]
    expected = (pooled / pooled.norm()).numpy()
    assert np.abs(np.array(ask(model, "change address")) - expected).max() < 1e-4


def test_labels_of_tokens_by_the_name_of_the_output(project: Project) -> None:
    class Tags(scripted.ByName):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
            types, positions = torch.zeros_like(input_ids), torch.arange(input_ids.shape[1]).unsqueeze(0)
            hidden = self.vectors(input_ids, types, positions.expand_as(input_ids), attention_mask.float())
            return {"vectors": hidden, "tags": self.head(hidden)}

    scripted.save(Tags(), project.root / "files" / "Tags.pt")
    changes: dict[str, Any] = {"source": {"torchscript": "files/Tags.pt", "trusted": True}}
    changes["task"] = "token-classification"
    fields = {name: value for name, value in FIVE.items() if name != "inputs"}
    changes["outputs"] = {"tags": {"labels": ["O", "A", "B"]}}
    model = served(project, "torchscript", **{**fields, **changes})
    ids = tokens(project, "change address")
    with torch.no_grad():
        expected = load(project, "Tags")(ids, torch.ones_like(ids))["tags"][0].softmax(-1)
    found = ask(model, "change address")
    labels = [["O", "A", "B"][int(row.argmax())] for row in expected[1:-1]]
    assert [entry["entity"] for entry in found] == [label for label in labels if label != "O"]
    if "openvino" in ENGINES:
        with pytest.raises(CompileError, match=r"cannot convert .*DictConstruct.* The engine torchscript can take it"):
            served(project, "openvino", **{**fields, **changes})


@pytest.fixture(scope="module", params=ENGINES)
def weighted(project: Project, request: pytest.FixtureRequest) -> Model:
    return served(project, request.param, **WEIGHTED)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["", "ok", *WORDS]), st.text(max_size=40)), min_size=1, max_size=5))
def test_a_preprocessing_module_with_fields_and_inputs_of_its_own(
    weighted: Model, project: Project, pairs: list[tuple[str, str]]
) -> None:
    pairs = [(title, body.encode("ascii", "ignore").decode()) for title, body in pairs]
    answers = ask(weighted, [{"title": title, "body": body} for title, body in pairs])
    preprocess, module = load(project, "Letters"), load(project, "Weighted")
    for (title, body), answer in zip(pairs, answers, strict=True):
        made = preprocess([title], [body])
        with torch.no_grad():
            logits = module(made["input_ids"], made["weights"], made["language"], made["attention_mask"])
        assert scores(answer) == pytest.approx(dict(zip(LABELS, logits[0].softmax(-1).tolist(), strict=True)), abs=1e-4)


def test_its_fields_are_those_of_requests(weighted: Model) -> None:
    bodies: list[Any] = [{"title": "a"}, "a", {"title": "a", "body": "b", "more": "c"}, {"title": "a", "body": 1}]
    replies = weighted.reply([(json.dumps({"inputs": body}).encode(), JSON) for body in bodies])
    assert [json.loads(reply.body)["type"] for reply in replies] == ["InvalidInstance"] * 4
    long = {"title": "a" * 500, "body": "b" * 600}
    good, refused = weighted.reply(
        [(json.dumps({"inputs": one}).encode(), JSON) for one in ({"title": "a", "body": ""}, long)]
    )
    assert (good.status, refused.status) == (200, 400)
    assert json.loads(refused.body)["error"] == ("the preprocessing module makes 1101 tokens; at most 1024 are allowed")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_module_for_single_texts_that_fails_on_some(project: Project, engine: str) -> None:
    fields = {**TWO, "preprocess": "files/OneText.pt", "shapes": {"exact": ["1x8", "2x24"]}}
    fields.pop("tokenizer")
    model, module, preprocess = served(project, engine, **fields), load(project, "MaskFirst"), load(project, "OneText")
    replies = model.reply([(json.dumps({"inputs": text}).encode(), JSON) for text in ("ok", "a;b", "change address")])
    assert [reply.status for reply in replies] == [200, 400, 200]
    assert json.loads(replies[1].body)["error"] == "the preprocessing module cannot read the text"
    mask, ids = preprocess("change address")
    with torch.no_grad():
        values, vectors = module(mask.unsqueeze(0).half(), ids.unsqueeze(0))
    answer = json.loads(replies[2].body)
    assert np.abs(np.array(answer["scores"]) - values[0].numpy()).max() < 1e-4
    assert np.abs(np.array(answer["vectors"]) - vectors[0, : len("change address")].numpy()).max() < 1e-4


def test_a_module_that_was_traced_for_one_shape(project: Project) -> None:
    class Fixed(scripted.FiveInputs):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
            ids = input_ids.view(2, 16)
            types, positions = torch.zeros_like(ids), torch.arange(16).unsqueeze(0).expand(2, 16)
            return self.head(self.vectors(ids, types, positions, attention_mask.float())[:, 0])

    scripted.save(Fixed(), project.root / "files" / "Fixed.pt")
    changes: dict[str, Any] = {
        "source": {"torchscript": "files/Fixed.pt", "trusted": True},
        "inputs": {"input_ids": "int64", "attention_mask": "int64"},
    }
    model = served(project, ENGINES[-1], **{**FIVE, **changes, "shapes": {"exact": ["2x16"]}})
    ids = tokens(project, "change address")
    padded = torch.nn.functional.pad(ids, (0, 16 - ids.shape[1])).repeat(2, 1)
    mask = (torch.arange(16) < ids.shape[1]).long().repeat(2, 1)
    with torch.no_grad():
        expected = load(project, "Fixed")(padded, mask)[0].softmax(-1).tolist()
    assert scores(ask(model, "change address")) == pytest.approx(dict(zip(LABELS, expected, strict=True)), abs=1e-4)
    with pytest.raises(MarinaError, match=r"4x64.*(traced for one|one shape)|fails with inputs of the shape 4x64"):
        served(project, ENGINES[-1], **{**FIVE, **changes})


def test_a_file_that_is_not_trusted_is_never_loaded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("loaded")

    monkeypatch.setattr(torch.jit, "load", refuse)
    for trusted in ({}, {"trusted": False}):
        path = write_spec(project, "m", **{**FIVE, "source": {"torchscript": "files/FiveInputs.pt", **trusted}})
        with pytest.raises(SpecError, match="is code, which runs when it is loaded; add trusted: true"):
            read_spec(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": None}, "needs either tokenizer or preprocess"),
        ({"preprocess": "files/Letters.pt"}, "needs either tokenizer or preprocess"),
        ({"outputs": None}, "needs outputs"),
        ({"inputs": {"input_ids": "int8"}}, "must be 'int64', 'int32'"),
        ({"fields": ["title"]}, "fields belongs to preprocess"),
        ({"pooling": "mean"}, "has it in outputs"),
        ({"source": {"path": "files"}}, "tokenizer belongs to source.torchscript"),
        ({"source": {"path": "files", "trusted": True}}, "trusted belongs to torchscript"),
        ({"task": "token-classification", "tokenizer": None, "preprocess": "x.pt"}, "needs a tokenizer"),
    ],
)
def test_specs_that_are_refused(project: Project, changes: dict[str, Any], message: str) -> None:
    fields = {name: value for name, value in {**FIVE, **changes}.items() if value is not None}
    with pytest.raises(SpecError, match=message):
        read_spec(write_spec(project, "m", **fields))


OWN = {**TWO, "tokenizer": None}
FOUR = {"input_ids": "int64", "attention_mask": "float16", "position_ids": "int64", "valid_length": "int64"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": {"torchscript": "files/None.pt", "trusted": True}}, "None.pt does not exist"),
        ({"source": {"torchscript": "pickle.pt", "trusted": True}}, "is not TorchScript"),
        ({"tokenizer": "files"}, "has no tokenizer.json"),
        ({"inputs": FOUR}, "inputs lists 4, and the module of files/FiveInputs.pt takes 5: input_ids, attention_mask"),
        ({"inputs": {**FOUR, "language": "int64"}}, "takes 'language', which a tokenizer does not give"),
        ({"inputs": {"input_ids": "int64", **HALVES, "attention_mask": "int64"}}, "not the dtypes of this module"),
        ({"outputs": {"quality": {"labels": ["bad", "good"]}}}, r"output logits has the shape \(4, 3\), and not"),
        ({"outputs": {"quality": {}}}, "the task text-classification needs labels"),
        ({"outputs": {"a": {"labels": LABELS}, "b": {"labels": LABELS}}}, "returns 1 tensors, and outputs names 2"),
        ({"task": "sentence-embedding"}, "has no labels"),
        ({"task": "zero-shot-classification"}, "outputs.quality: no label begins with entail: "),
        ({"task": "question-answering", "long_text": "window"}, "has 2 outputs, and outputs names 1"),
        ({**WEIGHTED, "tokenizer": None, "fields": ["text"]}, "takes 2 texts, and fields names 1"),
        ({**WEIGHTED, "tokenizer": None, "preprocess": "files/MaskFirst.pt"}, "its forward must take texts"),
        ({**OWN, "preprocess": "files/Uneven.pt"}, r"rows of \[3, 4\] tokens; they must be as many"),
        (
            {**TWO, "tokenizer": None, "preprocess": "files/Backwards.pt"},
            "has zeros before ones; padding must come last",
        ),
        (
            {
                **TWO,
                "tokenizer": None,
                "preprocess": "files/Unmarked.pt",
                "inputs": {"ids": "int64", "input_ids": "int64"},
            },
            "so it must give attention_mask or valid_length too",
        ),
        ({**TWO, "outputs": {"hidden": {}}}, "the module returns 2 tensors, and outputs names 1"),
    ],
)
def test_files_that_do_not_fit_the_spec(project: Project, changes: dict[str, Any], message: str) -> None:
    torch.save({"a": torch.zeros(1)}, project.root / "pickle.pt")
    fields = {name: value for name, value in {**FIVE, **changes}.items() if value is not None}
    with pytest.raises((SourceError, CompileError, ArtifactError), match=message):
        served(project, ENGINES[0], **fields)
    assert not list((project.artifacts / "m").glob("*.partial"))


def test_a_vector_is_not_cut_to_the_tokens_whatever_its_size(project: Project) -> None:
    source = {"torchscript": "files/Square.pt", "trusted": True}
    fields = {**TWO, "source": source, "shapes": {"exact": ["1x8", f"2x{scripted.WIDTH}"]}}
    answer = ask(served(project, ENGINES[0], **{**fields, "outputs": {"hidden": {}, "vector": {}}}), "ok")
    assert np.array(answer["hidden"]).shape == (3, scripted.WIDTH)
    assert np.array(answer["vector"]).shape == (scripted.WIDTH,)


def test_a_text_that_the_preprocessing_module_skips_fails_alone(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {**TWO, "preprocess": "files/Skips.pt", "shapes": {"exact": ["1x8", "4x64"]}, "examples": None}
    fields = {name: value for name, value in fields.items() if name != "tokenizer" and value is not None}
    model = served(project, ENGINES[0], **fields)
    replies = model.reply([(json.dumps({"inputs": text}).encode(), JSON) for text in ("ok", "#secret", "fine")])
    assert [reply.status for reply in replies] == [200, 400, 200]
    assert "secret" not in caplog.text + replies[1].body.decode()


def test_a_damaged_preprocessing_module_is_not_loaded(project: Project, tmp_path: Path) -> None:
    spec = read_spec(write_spec(project, "m", **{**WEIGHTED, "engine": ENGINES[0]}))
    folder = Path(shutil.copytree(compile_model(spec, project, no_progress).folder, tmp_path / "artifact"))
    with (folder / "preprocess.pt").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ArtifactError, match=r"preprocess\.pt is damaged"):
        Model(folder, make_settings(), TASKS)
