"""Served answers against transformers.pipeline, for every task and architecture."""

from __future__ import annotations

import json
import shutil
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AddedToken, AutoModel, AutoModelForTokenClassification, AutoTokenizer, pipeline

from handlers.worker.answering.model import Model
from handlers.worker.tasks import TASKS
from marina.compiler import compile_model
from marina.errors import SourceError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ROOT, WORDS, make_project, no_progress, scores, write_spec
from tests.embedders import edit_json
from tests.handlers.worker.tasks.architectures import ARCHITECTURES, save_model
from tests.settings import WIDE, make_settings

JSON = {"content-type": "application/json"}
TENSORS = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["ok"]}]}
STRATEGIES = ("none", "simple", "first", "average", "max")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("workshop"))


def open_model(
    project: Project, folder: Path, task: str, long_text: str = "truncate", windows: int = 64, **fields: Any
) -> Model:
    fields = {"shapes": {"exact": ["1x16", "2x32", "1x64"]}, **fields}
    path = write_spec(project, folder.name, task=task, source={"path": str(folder)}, **fields)
    artifact = compile_model(read_spec(path), project, no_progress).folder
    settings = make_settings(WIDE._replace(windows=windows), long_text=long_text)
    return Model(artifact, settings, TASKS)


def ask(model: Model, inputs: Any, **parameters: Any) -> Any:
    body = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    (reply,) = model.reply([(body, JSON)])
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def some_texts(longest: int, count: int = 12) -> list[str]:
    generator = np.random.default_rng(longest)
    pieces = [*WORDS, "Köln", "100%", "ok,", "(x)", "👍", "日本", "wireless-mouse", "A.B."]
    return [" ".join(generator.choice(pieces, n)) for n in generator.integers(1, longest, count)] + ["ok", " a  b "]


def close(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether two lists of entities are equal but for rounding in the scores."""
    return len(one) == len(other) and all(
        {**a, "score": 0} == {**b, "score": 0} and abs(a["score"] - b["score"]) < 1e-4
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_text_classification(workshop: Project, tmp_path: Path, architecture: str) -> None:
    folder = save_model(tmp_path / f"classify-{architecture}", architecture, "text-classification", num_labels=4)
    model = open_model(workshop, folder, "text-classification")
    reference = pipeline("text-classification", model=str(folder), device="cpu")
    texts = some_texts(12)
    for text, answer in zip(texts, ask(model, texts), strict=True):
        assert scores(answer) == pytest.approx(scores(reference(text, top_k=None)), abs=1e-4)
    pairs = [{"text": a, "text_pair": b} for a, b in pairwise(some_texts(3))]
    for pair, answer in zip(pairs, ask(model, pairs, top_k=2, function_to_apply="sigmoid"), strict=True):
        expected = reference(pair, top_k=2, function_to_apply="sigmoid")
        assert scores(answer) == pytest.approx(scores(expected), abs=1e-4)
    assert len(ask(model, "ok", return_all_scores=False)) == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_token_classification(workshop: Project, tmp_path: Path, architecture: str) -> None:
    folder = save_model(tmp_path / f"tag-{architecture}", architecture, "token-classification")
    model = open_model(workshop, folder, "token-classification")
    reference = pipeline("token-classification", model=str(folder), device="cpu")
    texts = some_texts(12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tokenizers without words: both guess alike
        for strategy in STRATEGIES:
            for text, answer in zip(
                texts, ask(model, texts, aggregation_strategy=strategy, ignore_labels=["B-ORG"]), strict=True
            ):
                expected = reference(text, aggregation_strategy=strategy, ignore_labels=["B-ORG"])
                assert close(answer, expected), (strategy, text)


@pytest.mark.parametrize("task", ["text-classification", "token-classification"])
def test_labels_keep_their_types(workshop: Project, tmp_path: Path, task: str) -> None:
    folder = save_model(tmp_path / f"types-{task}", "bert", task)
    labels = [1, True, None, 2.5, "x", "1"]
    count = json.loads((folder / "config.json").read_text()).get("id2label", {"0": "", "1": ""})
    named = {str(number): labels[number] for number in range(len(count))}
    edit_json(folder / "config.json", id2label=named, label2id={})
    model = open_model(workshop, folder, task)
    reference = pipeline(task, model=str(folder), device="cpu")
    for text in some_texts(12):
        if task == "token-classification":
            expected = reference(text, aggregation_strategy="none")
            assert close(ask(model, text, aggregation_strategy="none"), expected)
            continue
        answer, expected = ask(model, text), reference(text, top_k=None)
        assert [entry["label"] for entry in answer] == [entry["label"] for entry in expected]
        assert [type(entry["label"]) for entry in answer] == [type(entry["label"]) for entry in expected]
    if task == "text-classification":
        (reply,) = model.reply([(json.dumps(TENSORS).encode(), JSON)])
        (label,) = (tensor for tensor in json.loads(reply.body)["outputs"] if tensor["name"] == "label")
        assert sorted(label["data"]) == sorted(
            value if isinstance(value, str) else json.dumps(value) for value in named.values()
        )


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_words_of_added_tokens_have_no_spaces(workshop: Project, tmp_path: Path, architecture: str) -> None:
    folder = save_model(tmp_path / f"added-{architecture}", architecture, "token-classification")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    added = [AddedToken("<left>", lstrip=True), AddedToken("<both>", lstrip=True, rstrip=True)]
    tokenizer.add_tokens(added)
    tokenizer.save_pretrained(folder)
    network = AutoModelForTokenClassification.from_pretrained(folder)
    network.resize_token_embeddings(len(tokenizer))
    network.save_pretrained(folder)
    model = open_model(workshop, folder, "token-classification")
    reference = pipeline("token-classification", model=str(folder), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for text in ("ok <left> how <both> do <left>", "<both> ok  <both><left> password"):
            for strategy in STRATEGIES:
                answer = ask(model, text, aggregation_strategy=strategy)
                assert close(answer, reference(text, aggregation_strategy=strategy)), (strategy, text)


def test_a_tokenizer_that_pads_on_the_left_finds_no_entities(workshop: Project, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "left", "bert", "token-classification")
    edit_json(folder / "tokenizer_config.json", padding_side="left")
    with pytest.raises(SourceError, match=r'pads on the left.*; set "padding_side" to "right"'):
        open_model(workshop, folder, "token-classification")


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_token_classification_in_windows(workshop: Project, tmp_path: Path, architecture: str) -> None:
    folder = save_model(tmp_path / f"windows-{architecture}", architecture, "token-classification")
    model = open_model(workshop, folder, "token-classification")
    reference = pipeline("token-classification", model=str(folder), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for text in some_texts(120, count=6):
            for stride in (0, 5, 20):
                answer = ask(model, text, aggregation_strategy="simple", stride=stride)
                # a pipeline of its own, since the tokenizer keeps the last call's settings
                assert close(answer, reference(text, aggregation_strategy="simple", stride=stride)), (text, stride)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sentence_embeddings(workshop: Project, tmp_path: Path, architecture: str) -> None:
    folder = save_model(tmp_path / f"embed-{architecture}", architecture, "sentence-embedding")
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    texts = some_texts(12)
    model = open_model(workshop, folder, "sentence-embedding", pooling="last", normalize=True)
    for text, answer in zip(texts, ask(model, texts), strict=True):
        with torch.no_grad():
            vectors = encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected = torch.nn.functional.normalize(vectors[-1], dim=0).numpy()
        assert np.abs(np.array(answer) - expected).max() < 1e-4


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_question_answering_finds_what_a_search_of_all_spans_finds(
    workshop: Project, tmp_path: Path, architecture: str
) -> None:
    folder = save_model(tmp_path / f"answer-{architecture}", architecture, "question-answering")
    model = open_model(workshop, folder, "question-answering", long_text="window")
    for context in some_texts(70, count=5):
        inputs = {"question": "how do i reset", "context": context}
        found = ask(model, inputs, top_k=3, doc_stride=10, align_to_words=False, max_answer_len=7)
        answers = found if isinstance(found, list) else [found]  # as the pipeline gives a single one
        expected: dict[str, float] = {}
        for spans in all_spans(folder, inputs, stride=10, longest=7):
            for score, (start, end) in sorted(spans, reverse=True)[:3]:
                text = context[start:end].lower()
                expected[text] = expected.get(text, 0.0) + score
        best = sorted(expected.values(), reverse=True)
        assert len(answers) <= 3
        for answer, score in zip(answers, best, strict=False):
            assert answer["answer"] == context[answer["start"] : answer["end"]]
            assert abs(answer["score"] - score) < 1e-4
            # without enough spans in a context, one that has no probability may stand in
            assert abs(expected.get(answer["answer"].lower(), 0.0) - score) < 1e-4
    for context in (" ", "\n\t"):  # without tokens
        answer = ask(model, {"question": "how do i reset my password in this country", "context": context})
        assert answer["answer"].strip() == ""


def all_spans(
    folder: Path, inputs: dict[str, str], stride: int, longest: int
) -> list[list[tuple[float, tuple[int, int]]]]:
    """For each window the score of every span of tokens, and its place in the context, from the eager model."""
    from transformers import AutoModelForQuestionAnswering

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    windows = tokenizer(
        *(inputs["question"], inputs["context"]),
        truncation="only_second",
        max_length=64,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    found = []
    for number, ids in enumerate(windows["input_ids"]):
        named = {name: torch.tensor([windows[name][number]]) for name in tokenizer.model_input_names}
        with torch.no_grad():
            output = model(**named)
        inside = [i for i, sequence in enumerate(windows.sequence_ids(number)) if sequence == 1]
        counted = [i for i, token in enumerate(ids) if i in inside or token == tokenizer.cls_token_id]
        start, end = (
            dict(zip(counted, torch.softmax(logits[0, counted], 0).tolist(), strict=True))
            for logits in (output.start_logits, output.end_logits)
        )
        offsets = windows["offset_mapping"][number]
        found.append(
            [
                (start[first] * end[last], (offsets[first][0], offsets[last][1]))
                for first in inside
                for last in range(first, min(first + longest, inside[-1] + 1))
            ]
        )
    return found


def test_few_characters_may_make_many_windows(workshop: Project, tmp_path: Path) -> None:
    """NFKC writes the ligature as 18 letters; the bound is on windows, and a setting."""
    folder = save_model(tmp_path / "ligatures", "xlm-roberta", "question-answering")
    shapes = {"exact": ["1x48"]}
    model = open_model(workshop, folder, "question-answering", long_text="window", windows=256, shapes=shapes)
    context = "\ufdfa" * 30
    answer = ask(model, {"question": "how do i reset my password?", "context": context})
    assert answer["answer"] == context[answer["start"] : answer["end"]]
    strict = open_model(workshop, folder, "question-answering", long_text="window", windows=4, shapes=shapes)
    (reply,) = strict.reply([(json.dumps({"question": "ok", "context": context}).encode(), JSON)])
    refused = json.loads(reply.body)
    assert (refused["type"], reply.status) == ("TooManyWindows", 400)
    assert refused["error"].endswith("windows of 48 tokens; at most 4 are allowed")
    assert "serving.max_windows" in refused["fix"]
    assert "let the spec say" not in refused["fix"]


def test_question_answering_is_that_of_the_last_pipeline(workshop: Project, tmp_path: Path) -> None:
    """The answers on file were given by transformers 4.57.6, the last that has it; see make.py beside them."""
    data = ROOT / "tests" / "data" / "question_answering"
    folder = Path(shutil.copytree(data / "model", tmp_path / "answer-recorded"))
    model = open_model(workshop, folder, "question-answering", long_text="window")
    recorded = json.loads((data / "expected.json").read_text())
    assert recorded["transformers"] == "4.57.6"
    for case in recorded["cases"]:
        answer = ask(model, {"question": case["question"], "context": case["context"]}, **case["options"])
        expected = case["answer"]
        assert close(*(value if isinstance(value, list) else [value] for value in (answer, expected))), case


def test_a_label_below_its_threshold_comes_after_the_others(workshop: Project, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "thresholds", "bert", "text-classification", num_labels=3)
    model = open_model(workshop, folder, "text-classification")
    (best, second, third) = ask(model, "ok")
    name, score = best["label"], best["score"]
    assert ask(model, "ok", thresholds={name: score - 0.01}) == [best, second, third]
    assert ask(model, "ok", thresholds={name: score + 0.01}) == [second, third, best]
    assert ask(model, "ok", thresholds={name: score + 0.01}, top_k=1) == [second]
    assert ask(model, "ok", thresholds=dict.fromkeys([name, second["label"], third["label"]], 1)) == [
        best,
        second,
        third,
    ]
    for wrong, message in (
        ({"perhaps": 0.5}, 'has no label "perhaps"'),
        ({name: "much"}, "must be an object of numbers"),
    ):
        body = json.dumps({"inputs": "ok", "parameters": {"thresholds": wrong}}).encode()
        (reply,) = model.reply([(body, JSON)])
        assert reply.status == 400
        assert message in json.loads(reply.body)["error"]
