"""A chain of a bundle answers as two requests do, of which the second has the documents that the first one chose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.artifact import ARTIFACT_FOLDER
from handlers.worker.model import Model
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS
from handlers.worker.unpack import unpack
from marina.archive.bundle import pack_bundle
from marina.compiler import compile_model
from marina.errors import SpecError
from marina.project import Project
from marina.spec import read_spec
from marina.spec.bundle import Bundle, read_bundle, read_members
from tests.conftest import ENGINE, WORDS, make_project, no_progress, save_tiny_model, write_spec
from tests.embedders import save_embedder

JSON = {"content-type": "application/json"}
QUERY = " ".join(WORDS[3:6])
DOCUMENTS = [" ".join(WORDS[start : start + 4]) for start in range(12)]
CHAIN = ("search", "rerank")


def write_specs(project: Project) -> None:
    save_embedder(project.root / "weights" / "search", prompts={"query": "change ", "document": "invoice "})
    save_tiny_model(project.root / "weights" / "rerank", "reranking", seed=3)
    save_tiny_model(project.root / "weights" / "intent", "text-classification", seed=4)
    tasks = {"search": "sentence-embedding", "rerank": "reranking", "intent": "text-classification"}
    for name, task in tasks.items():
        source = {"path": str(project.root / "weights" / name)}
        write_spec(project, name, task=task, source=source, engine=ENGINE, shapes={"exact": ["1x16", "8x64"]})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    project = make_project(tmp_path_factory.mktemp("chain") / "project")
    write_specs(project)
    specs = [read_spec(project.models / f"{name}.yaml") for name in CHAIN]
    members = [(spec, compile_model(spec, project, no_progress).folder) for spec in specs]
    bundle = Bundle.model_validate({"name": "match", "bundle": list(CHAIN), "chain": list(CHAIN)})
    folder = project.root / "unpacked"
    unpack(pack_bundle(bundle, members, project.root).path, folder)
    return Model(folder / ARTIFACT_FOLDER, read_settings({"handler": {}, **_config(folder)}), TASKS)


def _config(folder: Path) -> dict[str, Any]:
    import yaml

    return dict(yaml.safe_load((folder / "model-config.yaml").read_text()))


def ask(model: Model, *documents: dict[str, Any], status: int = 200) -> Any:
    replies = model.reply([(json.dumps(document).encode(), JSON) for document in documents])
    assert [reply.status for reply in replies] == [status] * len(documents), replies
    answers = [json.loads(reply.body) for reply in replies]
    return answers[0] if len(documents) == 1 else answers


def in_two_requests(model: Model, candidates: int) -> list[dict[str, Any]]:
    (query,) = ask(model, {"model": "search", "inputs": [QUERY], "prompt_name": "query"})
    vectors = ask(model, {"model": "search", "inputs": DOCUMENTS, "prompt_name": "document"})

    def cosine(vector: list[float]) -> float:
        norms = sum(x * x for x in vector) * sum(x * x for x in query)
        return float(sum(x * y for x, y in zip(vector, query, strict=True)) / norms**0.5)

    kept = sorted(sorted(range(len(DOCUMENTS)), key=lambda number: -cosine(vectors[number]))[:candidates])
    texts = [DOCUMENTS[number] for number in kept]
    ranked = ask(model, {"model": "rerank", "query": QUERY, "texts": texts})
    return [{**entry, "index": kept[entry["index"]]} for entry in ranked]


@pytest.mark.parametrize("candidates", [1, 5, 20])
def test_it_answers_as_two_requests(model: Model, candidates: int) -> None:
    expected = in_two_requests(model, candidates)
    body = {"query": QUERY, "texts": DOCUMENTS, "candidates": candidates}
    answer, same, cohere = ask(model, body, body, {"query": QUERY, "documents": DOCUMENTS, "candidates": candidates})
    assert [entry["index"] for entry in answer] == [entry["index"] for entry in expected]
    assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-5)
    assert same == answer
    assert [entry["index"] for entry in cohere["results"]] == [entry["index"] for entry in answer]
    assert cohere["usage"]["total_tokens"] > 0
    top = ask(model, {**body, "top_n": 2, "return_text": True})
    assert [entry["text"] for entry in top] == [DOCUMENTS[entry["index"]] for entry in answer[:2]]


def test_others_in_the_batch_are_answered_too(model: Model) -> None:
    chained = {"query": QUERY, "texts": DOCUMENTS, "candidates": 3}
    plain = {"model": "rerank", "query": QUERY, "texts": DOCUMENTS[:2]}
    answers = ask(model, plain, chained, {"model": "search", "inputs": "ok"})
    assert [len(answer) for answer in answers] == [2, 3, 32]
    lines = "\n".join(map(json.dumps, (chained, plain))).encode()
    (reply,) = model.reply([(lines, {"content-type": "application/jsonlines"})])
    assert [len(json.loads(line)) for line in reply.body.splitlines()] == [3, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 0}, '"candidates" must be a whole number from 1 on'),
        ({"candidates": True}, '"candidates" must be a whole number from 1 on'),
        ({"texts": []}, "texts"),
        ({"texts": ["ok", 5]}, "texts[1].document must be a text, not a number"),
        ({"texts": ["ok", "x " * 200_000]}, "texts[1].document has 400000 characters"),
        ({"nothing": 1}, 'unknown field "nothing"'),
    ],
)
def test_what_is_refused(model: Model, change: dict[str, Any], message: str) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS, **change}
    (reply,) = model.reply([(json.dumps(body).encode(), JSON)])
    assert 400 <= reply.status < 500
    assert message in json.loads(reply.body)["error"]


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
    import yaml

    path = project.models / "match.yaml"
    path.write_text(yaml.safe_dump({"name": "match", "bundle": ["search", "rerank", "intent"], **fields}))
    with pytest.raises(SpecError, match=message):
        read_members(read_bundle(path), project.models, {})
