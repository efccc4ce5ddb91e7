"""The worker without TorchServe, against the eager Hugging Face model."""

import gc
import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from handlers.worker.answering.model import Model
from handlers.worker.answering.pipeline import Inference
from handlers.worker.archive.artifact import read_artifact
from handlers.worker.errors import ArtifactError, GoldenError
from handlers.worker.request.instances import RequestLimits
from handlers.worker.rows.plan import Planner
from handlers.worker.rows.schedule import Schedule
from handlers.worker.tasks import TASKS
from handlers.worker.tokens.tokenizer import RowTokenizer, Tokenized
from handlers.worker.values import Shape
from tests.conftest import ENGINE, ENGINES, WORDS, scores
from tests.handlers.worker.conftest import COMPILED, Tiny
from tests.handlers.worker.request.test_protocols import bodies
from tests.settings import make_settings

LIMITS = RequestLimits(instances=64, characters=5000, windows=64, body_bytes=100_000, tokens=10_000)
SETTINGS = make_settings(LIMITS)
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def models(compiled: dict[tuple[str, str], Tiny]) -> dict[tuple[str, str], Model]:
    return {key: Model(tiny.artifact, SETTINGS, TASKS) for key, tiny in compiled.items()}


def ask(model: Model, *documents: Any) -> list[tuple[int, Any]]:
    replies = model.reply([(json.dumps(document).encode(), JSON) for document in documents])
    return [(reply.status, json.loads(reply.body)) for reply in replies]


def reference(source: Path, task: str, text: str) -> Any:
    """What transformers answers for one text, without padding."""
    tokens = AutoTokenizer.from_pretrained(source)(text, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        if task == "sentence-embedding":
            return AutoModel.from_pretrained(source).eval()(**tokens).last_hidden_state.mean(1)[0].numpy()
        model = AutoModelForSequenceClassification.from_pretrained(source).eval()
        scores = model(**tokens).logits.softmax(-1)[0]
        return {model.config.id2label[i]: float(score) for i, score in enumerate(scores)}


@pytest.mark.parametrize("task", COMPILED)
@pytest.mark.parametrize("engine", ENGINES)
def test_answers_are_those_of_the_hugging_face_model(
    models: dict[tuple[str, str], Model], compiled: dict[tuple[str, str], Tiny], task: str, engine: str
) -> None:
    texts = ["", "ok", "change company address", "👍🏽 日本語 çà", " ".join(WORDS), " ".join(WORDS * 4)]
    ((status, answers),) = ask(models[task, engine], {"inputs": texts})
    assert status == 200
    for text, answer in zip(texts, answers, strict=True):
        expected = reference(compiled[task, engine].source, task, text)
        if task == "sentence-embedding":
            assert np.abs(np.array(answer) - expected).max() < 1e-4
        else:
            assert scores(answer) == pytest.approx(expected, abs=1e-4)
            assert list(scores(answer).values()) == sorted(scores(answer).values(), reverse=True)


texts_in_requests = st.lists(st.lists(st.sampled_from([*WORDS, "", "👍"]).map(lambda w: w * 3), max_size=6), max_size=6)


@settings(max_examples=30, deadline=None)
@given(texts_in_requests)
def test_a_text_is_answered_alike_alone_and_in_any_batch(
    models: dict[tuple[str, str], Model], requests: list[list[str]]
) -> None:
    model = models["text-classification", ENGINE]
    replies = ask(model, *({"inputs": texts} for texts in requests))
    for texts, (status, answers) in zip(requests, replies, strict=True):
        if not texts:
            assert status == 400
            continue
        assert status == 200
        for text, answer in zip(texts, answers, strict=True):
            (alone,) = ask(model, {"inputs": text})
            assert scores(answer) == pytest.approx(scores(alone[1]), abs=1e-4)


def test_a_bad_request_fails_alone(models: dict[tuple[str, str], Model]) -> None:
    model = models["text-classification", ENGINE]
    replies = ask(model, {"inputs": "ok"}, {"inputs": 5}, {"instances": ["ok", {"text": "a", "text_pair": "b"}]}, {})
    assert [status for status, _ in replies] == [200, 400, 200, 400]
    assert replies[1][1] == {
        "code": 400,
        "type": "InvalidInstance",
        "error": 'inputs must be a text or {"text": ...}, not a number',
        "fix": "Send what the model's task takes: docs/reference/requests.md shows it.",
    }
    assert len(replies[2][1]["predictions"]) == 2
    assert scores(replies[2][1]["predictions"][0]) == pytest.approx(scores(replies[0][1]))


def test_equal_rows_are_computed_once(models: dict[tuple[str, str], Model]) -> None:
    model = models["text-classification", ENGINE]
    model.metrics.take()
    text, other = " ".join(WORDS[:3]), " ".join(WORDS[3:5])
    (_, first), (_, second), (_, alone) = ask(
        model, {"inputs": [text, other, text]}, {"inputs": text}, {"inputs": {"text": text, "text_pair": other}}
    )
    assert first[0] == first[2] == second
    assert first[0] != first[1]
    assert alone != second
    counts = model.metrics.take()
    rows = {name: sum(value for (one, _), value in counts.items() if one == name) for name, _ in counts}
    assert (rows["marina_rows_total"], rows["marina_repeated_rows_total"]) == (3, 2)
    histogram = {labels[1]: value for (name, labels), value in counts.items() if name == "marina_row_tokens_bucket"}
    assert (histogram.get("4", 0), histogram["8"], histogram["+Inf"]) == (1, 3, 3)


def test_what_is_too_much_of_a_whole_request_blames_no_text(compiled: dict[tuple[str, str], Tiny]) -> None:
    settings = make_settings(LIMITS._replace(tokens=40))
    model = Model(compiled["text-classification", ENGINE].artifact, settings, TASKS)
    replies = ask(model, {"inputs": ["ok " * 30, "ok " * 20]}, {"inputs": ["ok " * 60]}, {"inputs": "ok"})
    assert [status for status, _ in replies] == [413, 413, 200]
    assert replies[0][1]["error"] == "the request has 54 tokens; at most 40 are allowed"
    assert replies[1][1]["error"] == "the request has 62 tokens; at most 40 are allowed"


def test_a_text_that_is_too_long_names_its_place(compiled: dict[tuple[str, str], Tiny]) -> None:
    settings = make_settings(LIMITS, long_text="reject")
    model = Model(compiled["text-classification", ENGINE].artifact, settings, TASKS)
    long = "ok " * 70
    replies = ask(model, {"inputs": ["ok", long]}, {"inputs": long}, {"inputs": "ok"})
    assert [status for status, _ in replies] == [400, 400, 200]
    assert replies[0][1]["error"] == "inputs[1]: the text has 72 tokens; at most 64 are allowed"
    assert replies[1][1]["error"] == "the text has 72 tokens; at most 64 are allowed"


def copy(compiled: dict[tuple[str, str], Tiny], tmp_path: Path, engine: str = ENGINE) -> Path:
    return Path(shutil.copytree(compiled["text-classification", engine].artifact, tmp_path / "artifact"))


@pytest.mark.parametrize("name", ["graph", "tokenizer.json", "golden.json"])
def test_a_damaged_file_is_named(compiled: dict[tuple[str, str], Tiny], tmp_path: Path, name: str) -> None:
    folder = copy(compiled, tmp_path)
    name = read_artifact(folder).graphs[1].graph if name == "graph" else name
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{name} is damaged: its sha256 is not the recorded one; compile"):
        Model(folder, SETTINGS, TASKS)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(ArtifactError, match=rf"{name} is damaged: \d+ bytes, not \d+"):
        Model(folder, SETTINGS, TASKS)
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing"):
        Model(folder, SETTINGS, TASKS)


@pytest.mark.parametrize("engine", ENGINES)
def test_other_weights_do_not_pass_the_golden_rows(
    compiled: dict[tuple[str, str], Tiny], tmp_path: Path, engine: str
) -> None:
    folder = copy(compiled, tmp_path, engine)
    (weights,) = folder.glob("weights*")
    content = bytearray(weights.read_bytes())
    middle = len(content) // 2 // 4 * 4
    content[middle : middle + 400] = np.full(100, 3.0, dtype=np.float32).tobytes()
    weights.write_bytes(content)
    document = json.loads((folder / "artifact.json").read_text())
    document["files"].pop(weights.name)
    (folder / "artifact.json").write_text(json.dumps(document))
    with pytest.raises(GoldenError, match=r"outputs differ from the reference model's by .*; the tolerance is 0\.0001"):
        Model(folder, SETTINGS, TASKS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 0}, "is not of artifact format 4"),
        ({"graphs": [{}]}, r"is not complete \(KeyError\('shape'\)\)"),
        ({"task": "sentence-embedding"}, "is for the task sentence-embedding, the handler for text-classification"),
        ({"engine": "abacus"}, "unknown engine 'abacus'; this release knows openvino, torchscript, neuron"),
    ],
)
def test_an_artifact_for_something_else_is_refused(
    compiled: dict[tuple[str, str], Tiny], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = copy(compiled, tmp_path)
    document = json.loads((folder / "artifact.json").read_text())
    (folder / "artifact.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(ArtifactError, match=message):
        Model(folder, SETTINGS, {"text-classification": TASKS["text-classification"]})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_that_is_none_is_refused_by_its_engine(
    compiled: dict[tuple[str, str], Tiny], tmp_path: Path, engine: str
) -> None:
    folder = copy(compiled, tmp_path, engine)
    document = json.loads((folder / "artifact.json").read_text())
    name = document["graphs"][0]["graph"]
    (folder / name).write_text("no graph")
    document["files"].pop(name)
    (folder / "artifact.json").write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match=f"cannot load .*{name}"):
        Model(folder, SETTINGS, TASKS)


def test_sixty_four_requests_with_eight_bad_ones_of_eight_kinds(models: dict[tuple[str, str], Model]) -> None:
    model = models["text-classification", ENGINE]
    bad: list[tuple[bytes | None, dict[str, str]]] = [
        (b"{", JSON),
        (b"\xff", {"content-type": "text/plain"}),
        (None, {}),
        (b'{"inputs": 5}', JSON),
        (b'{"inputs": "\\ud800"}', JSON),
        (b'{"inputs": "a", "parameters": {"top_k": -1}}', JSON),
        (b'{"inputs": "' + b"a" * 6000 + b'"}', JSON),
        (json.dumps({"instances": ["a"] * 65}).encode(), JSON),
    ]
    texts = [f"{WORDS[i % len(WORDS)]} {WORDS[i * 7 % len(WORDS)]}" for i in range(56)]
    batch: list[Any] = [(json.dumps({"inputs": text}).encode(), JSON) for text in texts]
    for place, one in enumerate(bad):
        batch.insert(place * 8, one)
    replies = model.reply(batch)
    refused = [json.loads(reply.body)["type"] for reply in replies if reply.status != 200]
    assert len(set(refused)) == 8
    answered = [json.loads(reply.body) for reply in replies if reply.status == 200]
    assert len(answered) == 56
    for text, answer in zip(texts, answered, strict=True):
        ((_, alone),) = ask(model, {"inputs": text})
        assert scores(answer) == pytest.approx(scores(alone), abs=1e-4)


@settings(max_examples=700, deadline=None)
@given(st.lists(st.tuples(bodies, st.sampled_from([JSON, {}, {"content-type": "text/plain"}])), max_size=5))
def test_no_bodies_of_others_keep_a_good_request_from_its_answer(
    models: dict[tuple[str, str], Model], others: list[tuple[bytes, dict[str, str]]]
) -> None:
    """More than 2,000 bodies in all."""
    model = models["text-classification", "torchscript"]
    replies = model.reply([*others, (b'{"inputs": "ok"}', JSON)])
    assert len(replies) == len(others) + 1
    assert all(reply.status in (200, 400, 413) for reply in replies)
    assert all(json.loads(reply.body) is not None for reply in replies)
    assert replies[-1].status == 200


V2 = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}


@pytest.mark.parametrize(
    ("body", "headers", "kind"),
    [
        (json.dumps({"id": "\ud800", "inputs": [V2]}).encode(), JSON, "InvalidText"),
        (json.dumps({"id": 5, "inputs": [V2]}).encode(), JSON, "InvalidInstance"),
        (json.dumps({"inputs": [V2, V2]}).encode(), JSON, "InvalidBody"),
        (b"{}", {**JSON, "inference-header-content-length": "0" * 5000}, "InvalidBody"),
        (json.dumps({"inputs": [{"text": "ok " * 1500, "text_pair": "ok " * 1500}] * 3}).encode(), JSON, None),
    ],
)
def test_odd_requests_fail_alone_and_soon(
    models: dict[tuple[str, str], Model], body: bytes, headers: dict[str, str], kind: str | None
) -> None:
    odd, good = models["text-classification", ENGINE].reply([(body, headers), (b"ok", {})])
    assert good.status == 200
    assert json.loads(odd.body)["type"] == kind if kind else odd.status == 200


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_that_fails_fails_its_own_rows(
    compiled: dict[tuple[str, str], Tiny], monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    model = Model(compiled["text-classification", engine].artifact, SETTINGS, TASKS)
    long = "ok " * 40
    graphs = model.members[0].graphs.streams[0]

    def fail(_: int) -> Any:
        raise RuntimeError(f"nrt_execute failed on {long}")

    monkeypatch.setattr(graphs[Shape(4, 64)], "run", fail)
    # so that no short text shares a call with a long one: as many as fill a call, and times that do not vary
    planner = Planner({shape: float(shape.batch_size * shape.sequence_length) for shape in graphs})
    monkeypatch.setattr(model._graphs, "_schedule", Schedule([planner]))
    different = [f"{long}{word}" for word in WORDS[:4]]  # equal ones would be computed once
    replies = ask(
        model, {"inputs": "ok"}, {"inputs": ["ok", *different[:2]]}, {"inputs": different[2:]}, {"inputs": "thanks"}
    )
    assert [status for status, _ in replies] == [200, 500, 500, 200]
    assert replies[1][1]["error"] == "inputs[1]: the worker failed with RuntimeError"
    monkeypatch.undo()
    assert [status for status, _ in ask(model, {"inputs": long})] == [200]


def test_a_panic_of_the_tokenizer_fails_its_own_request(
    models: dict[tuple[str, str], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """As pyo3 raises it: no Exception."""

    model = models["text-classification", ENGINE]
    tokenizer = model.members[0].reader
    assert isinstance(tokenizer, RowTokenizer)
    library = tokenizer.library

    class Panics:
        @staticmethod
        def encode_batch_fast(inputs: list[str]) -> Any:
            if "secret" in inputs:
                raise PanicException("secret")
            return library.encode_batch_fast(inputs)

    monkeypatch.setattr(tokenizer, "library", Panics)
    replies = ask(model, {"inputs": "ok"}, {"inputs": "secret"}, {"inputs": "ok"})
    assert [status for status, _ in replies] == [200, 500, 200]
    assert "secret" not in json.dumps(replies[1])


def test_answers_tell_where_the_time_went_if_they_are_to(
    models: dict[tuple[str, str], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["text-classification", ENGINE]
    assert all(not reply.headers for reply in model.reply([(b"ok", {})]))
    monkeypatch.setattr(model, "_settings", model._settings._replace(server_timing=True))
    timed, waited = model.reply([(b"ok", {}), (b"{", {**JSON, "x-request-start": f"t={time.time() - 1:.3f}"})])
    stages = r"read;dur=[\d.]+, tokenize;dur=[\d.]+, plan;dur=[\d.]+, graph;dur=[\d.]+, answer;dur=[\d.]+"
    assert re.fullmatch(rf'{stages}, batch;desc="2"', timed.headers["server-timing"])
    found = re.fullmatch(rf'queue;dur=([\d.]+), {stages}, batch;desc="2"', waited.headers["server-timing"])
    assert found
    assert 900 < float(found[1]) < 60_000


def test_a_failure_of_our_own_is_told_and_harms_no_neighbour(
    models: dict[tuple[str, str], Model], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, task = models["text-classification", ENGINE], TASKS["text-classification"]

    def fail(example: Any, *others: Any) -> Any:
        if example.instance.text == "secret":
            raise ZeroDivisionError(example.instance.text)
        return task.answer(example, *others)

    monkeypatch.setattr(model.members[0], "task", replace(task, answer=fail))
    bad, good = model.reply([(b"secret", {}), (b"ok", {})])
    assert (bad.status, good.status) == (500, 200)
    assert json.loads(bad.body)["type"] == "Unexpected"
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text + bad.body.decode()


def test_more_costly_requests_than_one_are_refused_and_cheap_ones_answered(
    compiled: dict[tuple[str, str], Tiny],
) -> None:
    task = "text-classification"
    model = Model(
        compiled[task, ENGINE].artifact, SETTINGS._replace(max_batch_ms=1, deadline_ms=600, batch_size=3), TASKS
    )
    costly, cheap = {"inputs": [" ".join(WORDS)] * 30}, {"inputs": "ok"}
    replies = model.reply([(json.dumps(one).encode(), JSON) for one in (costly, cheap, costly)])
    assert [reply.status for reply in replies] == [200, 200, 503]
    assert [dict(reply.headers) for reply in replies] == [{}, {}, {"retry-after": "1"}]
    assert json.loads(replies[2].body)["type"] == "Overloaded"


@pytest.mark.parametrize(
    "document",
    [
        {"inputs": ["word " * 30] * 20},  # more tokens than a request may have
        {"inputs": ["ok"] * 65},
        {"inputs": "x" * 5001},
        {"inputs": ["ok", 5]},
        {"inputs": "ok"},
    ],
)
def test_what_a_request_took_is_free_once_it_is_answered(compiled: dict[tuple[str, str], Tiny], document: Any) -> None:
    settings = make_settings(LIMITS._replace(tokens=200))
    model = Model(compiled["text-classification", ENGINE].artifact, settings, TASKS)
    gc.collect()
    gc.disable()
    try:
        ask(model, document)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kept = [each for each in gc.garbage if isinstance(each, (Inference, Tokenized))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert kept == []
