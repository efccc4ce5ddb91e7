"""A chain of a bundle answers as two requests do, of which the second has the documents that the first one chose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sentence_transformers
import yaml

from handlers.worker.admission.bounds import Admission
from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import TRUNCATED_HEADER, Reply
from handlers.worker.archive.artifact import ARTIFACT_FOLDER
from handlers.worker.archive.unpack import unpack
from handlers.worker.errors import RequestError
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS
from marina.archive.bundle import pack_bundle
from marina.compiler import compile_model
from marina.errors import SpecError
from marina.project import Project
from marina.spec import Spec, read_spec
from marina.spec.bundle import Bundle, read_bundle, read_members
from tests.conftest import ENGINE, WORDS, make_project, no_progress, save_tiny_model, write_spec
from tests.embedders import save_embedder, save_late_interaction
from tests.models import reply

QUERY = " ".join(WORDS[3:6])
DOCUMENTS = [" ".join(WORDS[start : start + 4]) for start in range(12)]
LONG = " ".join(WORDS * 8)  # for every shape
CHAIN = ("search", "rerank")
HAS_LATE = hasattr(sentence_transformers, "MultiVectorEncoder")
needs_late = pytest.mark.skipif(not HAS_LATE, reason="needs sentence-transformers 6")
Members = list[tuple[Spec, Path]]


def write_specs(project: Project) -> list[str]:
    save_embedder(project.root / "weights" / "search", prompts={"query": "change ", "document": "invoice "})
    save_tiny_model(project.root / "weights" / "rerank", "reranking", seed=3)
    save_tiny_model(project.root / "weights" / "intent", "text-classification", seed=4)
    tasks = {"search": "sentence-embedding", "rerank": "reranking", "intent": "text-classification"}
    if HAS_LATE:
        save_late_interaction(project.root / "weights" / "late")
        tasks["late"] = "multi-vector-embedding"
    for name, task in tasks.items():
        source = {"path": str(project.root / "weights" / name)}
        write_spec(project, name, task=task, source=source, engine=ENGINE, shapes={"exact": ["1x16", "8x64"]})
    return list(tasks)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    project = make_project(tmp_path_factory.mktemp("chain") / "project")
    specs = [read_spec(project.models / f"{name}.yaml") for name in write_specs(project)]
    return [(spec, compile_model(spec, project, no_progress).folder) for spec in specs]


def open_chain(
    members: Members, folder: Path, *chain: str, limits: Mapping[str, Mapping[str, Any]] = {}, **fields: Any
) -> Model:
    """A bundle with a chain.

    Args:
        members: the models.
        folder: an empty one.
        chain: the models of the chain.
        limits: fields of the configuration of models, by name.
        fields: of the configuration of the worker.
    """
    bundle = Bundle.model_validate({"name": "match", "bundle": [spec.name for spec, _ in members], "chain": chain})
    unpack(pack_bundle(bundle, members, folder).path, folder / "unpacked")
    config = yaml.safe_load((folder / "unpacked" / "model-config.yaml").read_text())
    for name, changes in limits.items():
        config["handler"]["members"][name].update(changes)
    config["handler"].update(fields)
    return Model(folder / "unpacked" / ARTIFACT_FOLDER, read_settings(config), TASKS)


@pytest.fixture(scope="module")
def model(members: Members, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_chain(members, tmp_path_factory.mktemp("bundle"), *CHAIN)


def replies(model: Model, *documents: dict[str, Any]) -> list[Reply]:
    """The replies to a batch."""
    headers = {"content-type": "application/json"}
    return model.reply([(json.dumps(document).encode(), headers) for document in documents])


def best(model: Model, candidates: int) -> list[int]:
    """The documents that the first model chooses, in their order."""
    (query,) = reply(model, {"model": "search", "inputs": [QUERY], "prompt_name": "query"})
    vectors = reply(model, {"model": "search", "inputs": DOCUMENTS, "prompt_name": "document"})

    def cosine(vector: list[float]) -> float:
        norms = sum(x * x for x in vector) * sum(x * x for x in query)
        return float(sum(x * y for x, y in zip(vector, query, strict=True)) / norms**0.5)

    return sorted(sorted(range(len(DOCUMENTS)), key=lambda number: -cosine(vectors[number]))[:candidates])


def ranked(model: Model, name: str, numbers: list[int]) -> list[dict[str, Any]]:
    """The ranking of documents by one model alone, with their numbers."""
    answer = reply(model, {"model": name, "query": QUERY, "texts": [DOCUMENTS[number] for number in numbers]})
    return [{**entry, "index": numbers[entry["index"]]} for entry in answer]


def assert_same(answer: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [entry["index"] for entry in answer] == [entry["index"] for entry in expected]
    assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-5)


def tokens(model: Model, texts: list[str], prompt: str) -> int:
    return sum(map(len, reply(model, {"model": "search", "tokenize": texts, "prompt_name": prompt})))


@pytest.mark.parametrize("candidates", [1, 5, 20])
def test_it_answers_as_two_requests(model: Model, candidates: int) -> None:
    expected = ranked(model, "rerank", best(model, candidates))
    body = {"query": QUERY, "texts": DOCUMENTS, "candidates": candidates}
    answer, again = (json.loads(each.body) for each in replies(model, body, body))
    assert_same(answer, expected)
    assert again == answer
    top = reply(model, {**body, "top_n": 2, "return_text": True})
    assert [entry["text"] for entry in top] == [DOCUMENTS[entry["index"]] for entry in answer[:2]]


def test_a_client_that_must_name_a_model_names_the_bundle(model: Model) -> None:
    body = {"query": QUERY, "documents": DOCUMENTS, "candidates": 4}
    answer = reply(model, {**body, "model": "match"})
    assert answer == reply(model, body)
    kept = best(model, 4)
    results = [{"index": entry["index"], "score": entry["relevance_score"]} for entry in answer["results"]]
    assert_same(results, ranked(model, "rerank", kept))
    alone = reply(model, {"model": "rerank", "query": QUERY, "documents": [DOCUMENTS[number] for number in kept]})
    first = tokens(model, [QUERY], "query") + tokens(model, DOCUMENTS, "document")
    assert answer["usage"]["total_tokens"] == first + alone["usage"]["total_tokens"]


def test_by_default_20_documents_go_on_or_as_many_as_the_next_model_takes(members: Members, tmp_path: Path) -> None:
    model = open_chain(members, tmp_path, *CHAIN, limits={"rerank": {"max_instances": 3}})
    assert len(reply(model, {"query": QUERY, "texts": DOCUMENTS})) == 3
    refused = reply(model, {"query": QUERY, "texts": DOCUMENTS, "candidates": 4}, 413)
    assert refused["error"] == "rerank: the request makes 4 rows; at most 3 are allowed; send fewer candidates"
    many = open_chain(members, tmp_path / "many", *CHAIN)
    assert len(reply(many, {"query": QUERY, "texts": DOCUMENTS * 2})) == 20


@needs_late
def test_multi_vector_embeddings_rank_too(members: Members, tmp_path: Path) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS, "candidates": 5}
    last = open_chain(members, tmp_path / "last", "search", "late")
    assert_same(reply(last, body), ranked(last, "late", best(last, 5)))
    first = open_chain(members, tmp_path / "first", "late", "rerank")
    kept = sorted(entry["index"] for entry in ranked(first, "late", list(range(len(DOCUMENTS))))[:5])
    assert_same(reply(first, body), ranked(first, "rerank", kept))
    all_three = open_chain(members, tmp_path / "three", "late", "search", "rerank")
    assert_same(reply(all_three, body), ranked(first, "rerank", kept))


def test_others_in_the_batch_are_answered_too(model: Model) -> None:
    chained = {"query": QUERY, "texts": DOCUMENTS, "candidates": 3}
    plain = {"model": "rerank", "query": QUERY, "texts": DOCUMENTS[:2]}
    batch = replies(model, plain, chained, {"model": "search", "inputs": "ok"})
    assert [len(json.loads(each.body)) for each in batch] == [2, 3, 32]
    lines = "\n".join(map(json.dumps, (chained, plain))).encode()
    (answer,) = model.reply([(lines, {"content-type": "application/jsonlines"})])
    assert [len(json.loads(line)) for line in answer.body.splitlines()] == [3, 2]


# where a chain fails, by the limits of a model and the texts of the request
FAILURES: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Any], str]] = {
    "before": ({"rerank": {"max_instances": 2}}, {"candidates": 3}, "rerank: the request makes 3 rows; at most 2"),
    "first": ({"search": {"max_tokens": 40}}, {}, "search: the request has "),
    "query": ({"search": {"long_text": "reject"}}, {"query": LONG}, "query: the text has "),
    "document": ({"search": {"long_text": "reject"}}, {"texts": ["ok", LONG]}, "texts[1]: the text has "),
    "last": ({"rerank": {"max_tokens": 40}}, {}, "rerank: the request has "),
    # the document before it is not among the candidates
    "kept": (
        {"rerank": {"long_text": "reject"}},
        {"texts": ["ok", QUERY, f"{QUERY} {LONG}"], "candidates": 2},
        "texts[2]: ",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_request_that_fails_says_where_and_costs_no_other(members: Members, tmp_path: Path, kind: str) -> None:
    limits, fields, message = FAILURES[kind]
    model = open_chain(members, tmp_path, *CHAIN, limits=limits)
    chained = {"query": QUERY, "texts": DOCUMENTS, **fields}
    search: dict[str, Any] = {"model": "search", "inputs": "ok"}
    rerank: dict[str, Any] = {"model": "rerank", "query": "ok", "texts": ["ok"]}
    before, failed, after = replies(model, search, chained, rerank)
    assert (before.status, after.status) == (200, 200)
    assert 400 <= failed.status < 500
    assert json.loads(failed.body)["error"].startswith(message)
    counts = {
        labels: value for (name, labels), value in model.metrics.take().items() if name == "marina_requests_total"
    }
    label = "-" if kind == "before" else "rerank"
    assert counts == {("search", "200"): 1, (label, str(failed.status)): 1, ("rerank", "200"): 1}


def test_the_numbers_of_cut_documents_are_those_of_the_body(members: Members, tmp_path: Path) -> None:
    model = open_chain(members, tmp_path, *CHAIN)
    (answer,) = replies(model, {"query": QUERY, "texts": ["ok", QUERY, f"{QUERY} {LONG}"], "candidates": 2})
    assert {entry["index"] for entry in json.loads(answer.body)} == {1, 2}
    assert answer.headers[TRUNCATED_HEADER] == "2"
    (answer,) = replies(model, {"query": LONG, "texts": ["ok", QUERY], "candidates": 1})
    assert answer.headers[TRUNCATED_HEADER] == "0,1"


def test_a_refusal_of_a_whole_chain_names_no_model(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_chain(members, tmp_path, *CHAIN)
    refusal = RequestError("TooMuchWork", "the request needs about 9 s")
    monkeypatch.setattr(Admission, "refusals", lambda *_: [refusal])
    chained, plain = {"query": QUERY, "texts": DOCUMENTS}, {"model": "search", "inputs": "ok"}
    assert reply(model, chained, 413)["error"] == "the request needs about 9 s"
    lines = "\n".join(map(json.dumps, (chained, plain))).encode()
    (answer,) = model.reply([(lines, {"content-type": "application/jsonlines"})])
    assert answer.status == 413


def test_what_the_admission_adds_up(members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_chain(members, tmp_path, *CHAIN)
    costs: list[tuple[float, float]] = []

    def refusals(_: Admission, of_requests: list[float], switching: float) -> list[None]:
        costs.append((of_requests[0], switching))
        return [None]

    monkeypatch.setattr(Admission, "refusals", refusals)
    monkeypatch.setattr(model, "_switch_ms", {"search": 1.0, "rerank": 10.0, "intent": 100.0, "late": 100.0})
    for candidates in (2, 4):
        reply(model, {"query": QUERY, "texts": ["ok"] * 4, "candidates": candidates})
    reply(model, {"model": "search", "inputs": [QUERY, *["ok"] * 4]})
    (two, switching), (four, _), (search, alone) = costs
    assert (switching, alone) == (11.0, 1.0)
    assert four - search == pytest.approx(2 * (two - search), rel=0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 0}, '"candidates" must be a whole number from 1 on'),
        ({"candidates": True}, '"candidates" must be a whole number from 1 on'),
        ({"texts": []}, "texts"),
        ({"texts": ["ok", 5]}, "texts[1].document must be a text, not a number"),
        ({"texts": ["ok", "x " * 200_000]}, "texts[1].document has 400000 characters"),
        ({"nothing": 1}, 'unknown field "nothing"'),
        ({"model": "other"}, 'the bundle has no model "other"'),
        ({"models": ["rerank"]}, 'unknown field "candidates"'),
    ],
)
def test_what_is_refused(model: Model, change: dict[str, Any], message: str) -> None:
    refused = reply(model, {"query": QUERY, "texts": DOCUMENTS, "candidates": 3, **change}, 400)
    assert message in refused["error"]


def test_the_description_names_the_chain(model: Model) -> None:
    assert model.describe()["chain"] == list(CHAIN)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chain": ["search"]}, "chain: name two or more models of the bundle, each once"),
        ({"chain": ["search", "search"]}, "chain: name two or more models of the bundle, each once"),
        ({"chain": ["search", "other"]}, "chain: name two or more models of the bundle, each once"),
        ({"chain": ["intent", "rerank"]}, "chain: intent has the task text-classification, which gives documents no"),
        (
            {"chain": ["rerank", "search"]},
            "chain: its last model, search, must rank: multi-vector-embedding, reranking",
        ),
    ],
)
def test_chains_that_cannot_be(project: Project, fields: dict[str, Any], message: str) -> None:
    write_specs(project)
    path = project.models / "match.yaml"
    path.write_text(yaml.safe_dump({"name": "match", "bundle": ["search", "rerank", "intent"], **fields}))
    with pytest.raises(SpecError, match=message):
        read_members(read_bundle(path), project.models, {})
