"""Zero-shot classification is answered as by transformers' pipeline, from a folder to a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS, zero_shot_classification
from handlers.worker.tasks.zero_shot_classification import entailment_of
from handlers.worker.values import Instance
from marina.compiler import compile_model
from marina.compiler.examples import read_examples
from marina.errors import SourceError, SpecError
from marina.new import new_project, new_spec
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINES, WORDS, needs_openvino, no_progress, save_tiny_model, write_spec
from tests.settings import make_settings

JSON = {"content-type": "application/json"}
LABELS = ["invoice", "password reset", "a wireless mouse"]
TEXTS = ["ok", "change company address", " ".join(WORDS[:30]), "Köln 👍"]
# the classes of models of entailment, in the orders that are in use
ORDERS = (("contradiction", "neutral", "entailment"), ("ENTAILMENT", "NEUTRAL", "CONTRADICTION"), ("no", "entails"))


def save_nli(folder: Path, classes: tuple[str, ...]) -> Path:
    numbered = dict(enumerate(classes))
    options = {"id2label": numbered, "label2id": {label: number for number, label in numbered.items()}}
    return save_tiny_model(folder, "text-classification", seed=len(classes), **options)


def open_model(project: Project, folder: Path, engine: str = ENGINES[0], **fields: Any) -> Model:
    fields = {"task": "zero-shot-classification", "shapes": {"exact": ["1x32", "4x32", "4x64"]}, **fields}
    path = write_spec(project, folder.name, source={"path": str(folder)}, **fields)
    return Model(
        compile_model(read_spec(path, {"engine": engine}), project, no_progress).folder, make_settings(), TASKS
    )


def ask(model: Model, inputs: Any, **parameters: Any) -> Any:
    (reply,) = model.reply([(json.dumps({"inputs": inputs, "parameters": parameters}).encode(), JSON)])
    return json.loads(reply.body)


@pytest.mark.parametrize("classes", ORDERS, ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_answers_are_those_of_the_pipeline(
    project: Project, tmp_path: Path, engine: str, classes: tuple[str, ...]
) -> None:
    folder = save_nli(tmp_path / "nli", classes)
    library = pipeline("zero-shot-classification", model=str(folder), device="cpu")
    model = open_model(project, folder, engine)
    for options in (
        {"candidate_labels": LABELS},
        {"candidate_labels": LABELS, "multi_label": True},
        {"candidate_labels": LABELS[:1]},
        {"candidate_labels": LABELS[:2], "hypothesis_template": "this is about {}, ok?"},
    ):
        for text, answer in zip(TEXTS, ask(model, TEXTS, **options), strict=True):
            expected = library(text, **options)
            assert [entry["label"] for entry in answer] == expected["labels"]
            assert [entry["score"] for entry in answer] == pytest.approx(expected["scores"], abs=1e-5)


def test_packed_graphs_answer_alike(project: Project, tmp_path: Path) -> None:
    folder = save_nli(tmp_path / "nli", ORDERS[0])
    plain = ask(open_model(project, folder), TEXTS, candidate_labels=LABELS)
    packed = open_model(project, folder, shapes={"exact": ["1x64"], "packed": ["1x64", "4x64"]})
    for answer, other in zip(ask(packed, TEXTS, candidate_labels=LABELS), plain, strict=True):
        assert [entry["label"] for entry in answer] == [entry["label"] for entry in other]
        assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in other], abs=1e-5)


def test_a_long_text_is_cut_and_hypotheses_are_not(project: Project, tmp_path: Path) -> None:
    model = open_model(project, save_nli(tmp_path / "nli", ORDERS[0]))
    body = json.dumps({"inputs": "ok " * 80, "parameters": {"candidate_labels": LABELS}}).encode()
    (reply,) = model.reply([(body, JSON)])
    assert (reply.status, reply.headers["x-marina-truncated"]) == (200, "0")
    # so it is with the end of the text gone
    cut = ask(model, "ok " * 79, candidate_labels=LABELS)
    assert [entry["score"] for entry in json.loads(reply.body)] == pytest.approx([entry["score"] for entry in cut])
    assert ask(model, "ok", candidate_labels=["ok " * 70])["type"] == "TextTooLong"


def test_labels_of_the_spec_are_the_default(project: Project, tmp_path: Path) -> None:
    folder = save_nli(tmp_path / "nli", ORDERS[0])
    model = open_model(project, folder)
    assert ask(model, "ok")["error"].startswith("candidate_labels: name the labels to choose from")
    assert [entry["label"] for entry in ask(model, "ok", candidate_labels=LABELS, top_k=1)] == [
        ask(model, "ok", candidate_labels=LABELS)[0]["label"]
    ]
    for wrong, reason in (
        ({"candidate_labels": []}, "name the labels"),
        ({"hypothesis_template": None}, "write {} once"),
    ):
        with pytest.raises(SpecError, match=f"parameters: .*: {reason}"):
            open_model(project, folder, parameters=wrong)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"candidate_labels": []}, "name the labels to choose from"),
        ({"candidate_labels": ["a", "a"]}, "labels must not be empty, and differ from each other"),
        ({"candidate_labels": ["a", ""]}, "labels must not be empty, and differ from each other"),
        ({"candidate_labels": "a, b"}, "must be a list of words"),
        ({"candidate_labels": ["a"], "hypothesis_template": "about"}, "write {} once, for the label"),
        ({"candidate_labels": ["a"], "hypothesis_template": "{} {}"}, "write {} once, for the label"),
        ({"candidate_labels": ["a"], "hypothesis_template": "{} {x}"}, "write {} once, for the label"),
        ({"candidate_labels": ["a"], "hypothesis_template": None}, "write {} once, for the label"),
        ({"candidate_labels": [str(number) for number in range(300)]}, "rows; at most"),
        ({"candidate_labels": ["a" * 200_000]}, "a text that the parameters make has 200017 characters; at most"),
        ({"candidate_labels": ["\ud800"]}, "a text that the parameters make has a lone surrogate"),
    ],
)
def test_what_is_refused(nli: Model, parameters: dict[str, Any], message: str) -> None:
    assert message in ask(nli, "ok", **parameters)["error"]


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("zero-shot")
    return open_model(new_project(folder / "project"), save_nli(folder / "nli", ORDERS[0]))


def test_others_in_the_request_share_rows_and_fail_alone(nli: Model) -> None:
    bodies = [
        {"inputs": ["ok", "ok"], "parameters": {"candidate_labels": LABELS}},
        {"inputs": "ok", "parameters": {"candidate_labels": LABELS[::-1]}},
        {"inputs": "ok"},
    ]
    replies = nli.reply([(json.dumps(body).encode(), JSON) for body in bodies])
    assert [reply.status for reply in replies] == [200, 200, 400]
    (first, second), third = (json.loads(reply.body) for reply in replies[:2])
    assert first == second == third
    assert sum(value for (name, _), value in nli.metrics.take().items() if name == "marina_rows_total") >= len(LABELS)


def test_more_texts_than_allowed_are_not_made(nli: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Instance] = []
    member = nli.members[0]

    def expand(instance: Instance, parameters: Mapping[str, Any]) -> list[Instance]:
        made.append(instance)
        return zero_shot_classification.expand(instance, parameters)

    monkeypatch.setattr(member, "task", replace(member.task, expand=expand))
    refused = ask(nli, ["ok"] * 200, candidate_labels=[str(number) for number in range(90)])
    assert (refused["type"], len(made)) == ("TooManyRows", 3)


@needs_openvino
def test_texts_are_split_before_they_are_expanded(project: Project, tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": f"text {n}"}) + "\n" for n in range(64)))
    fields = {"task": "zero-shot-classification", "source": {"path": "x"}, "shapes": {"exact": ["1x16"]}}
    fields |= {"precision": "int8", "examples": str(tmp_path / "texts.jsonl")}
    found = read_examples(
        read_spec(write_spec(project, "m", **fields, parameters={"candidate_labels": LABELS})), tmp_path
    )
    parts = [{instance.text for instance in part} for part in (found.calibration, found.held_out)]
    assert not parts[0] & parts[1]
    for part in (found.calibration, found.held_out, found.parity[-30:]):
        assert {instance.text_pair for instance in part} == {f"This example is {label}." for label in LABELS}
    plain = {**fields, "precision": "f32"}
    others = [
        read_examples(read_spec(write_spec(project, name, **plain, parameters={"candidate_labels": labels})), tmp_path)
        for name, labels in (("a", LABELS), ("b", LABELS[:1]))
    ]
    assert others[0] == others[1]  # so that other labels compile nothing


def test_a_folder_is_recognised_by_its_classes(tmp_path: Path, project: Project) -> None:
    path = new_spec(project, "nli", str(save_nli(tmp_path / "nli", ORDERS[1])), None).path
    assert read_spec(path).task == "zero-shot-classification"
    assert '#   candidate_labels: ["billing", "delivery"' in path.read_text()
    path.write_text(path.read_text().replace("# parameters:", "parameters:").replace("#   candidate", "  candidate"))
    assert len(read_spec(path).parameters["candidate_labels"]) == 3
    other = save_tiny_model(tmp_path / "other", "text-classification")
    assert read_spec(new_spec(project, "other", str(other), None).path).task == "text-classification"
    with pytest.raises(SourceError, match=r"source .*: no label begins with entail: LABEL_0, LABEL_1"):
        open_model(project, other)


def test_the_class_of_entailment() -> None:
    assert [entailment_of(classes) for classes in (*ORDERS, ("a", "b"), ("entailment",))] == [2, 0, 1, None, None]
