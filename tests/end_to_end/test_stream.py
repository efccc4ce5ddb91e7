"""JSON Lines, streams and jobs in bulk against the real TorchServe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from marina.client import Client
from marina.errors import RefusedError
from tests.conftest import make_project, save_tiny_model, scores, write_spec
from tests.end_to_end.conftest import Server, run_marina, serving
from tests.end_to_end.test_serve import many_texts

MODEL = "intents"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    project = make_project(tmp_path_factory.mktemp("stream"))
    save_tiny_model(project.root / "weights", "text-classification")
    shapes = {"exact": ["1x16", "1x64", "8x64"]}
    write_spec(project, MODEL, task="text-classification", source={"path": "weights"}, shapes=shapes)
    assert run_marina(project, "archive").returncode == 0
    with serving(project) as running:
        yield running


def test_each_line_gets_a_line(server: Server) -> None:
    body = b'"change company address"\n{"inputs": "hello", "parameters": {"top_k": 1}}\n{"inputs": 3}\n'
    headers = {"Authorization": f"Bearer {server.token()}", "Content-Type": "application/jsonlines"}
    response = requests.post(f"{server.url}/predictions/{MODEL}", data=body, headers=headers, timeout=60)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/jsonlines"
    first, second, third = map(json.loads, response.text.splitlines())
    assert len(first) > 1
    assert len(second) == 1
    assert third["type"] == "InvalidInstance"


def test_a_stream_gets_the_answers_of_single_requests(server: Server) -> None:
    instances: list[Any] = [*many_texts() * 3, 3]  # more than a request may have
    with Client.http(server.url, server.token()) as client:
        found = list(client.stream(MODEL, enumerate(instances)))
        alone = [client.predict(MODEL, text) for text in instances[:20]]
    assert [one.key for one in found] == list(range(len(instances)))
    assert isinstance(found[-1].error, RefusedError)
    assert {one.error for one in found[:-1]} == {None}
    for one, answer in zip(found, alone):
        assert scores(one.answer) == dict.fromkeys(scores(answer)) | scores(one.answer)
        assert all(abs(scores(one.answer)[label] - score) < 1e-4 for label, score in scores(answer).items())


def test_a_job_that_a_server_answers_equals_one_without(server: Server) -> None:
    root = server.project.root
    texts = [*many_texts(), None]
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), root / "rows.parquet")
    same = ("score", MODEL, "--input", "rows.parquet", "--keep", "id", "--output")
    for arguments in (("here.parquet",), ("there.parquet", "--url", server.url, "--token", server.token())):
        ran = run_marina(server.project, *same, *arguments)
        assert ran.returncode == 0, ran.stderr
        assert "201 rows, 200 answered, 1 errors" in ran.stdout
    here, there = (pq.read_table(root / f"{name}.parquet") for name in ("here", "there"))
    assert here.schema == there.schema
    for one, other in zip(here.to_pylist(), there.to_pylist()):
        assert (one["id"], one["label"], one["truncated"]) == (other["id"], other["label"], other["truncated"])
        assert (one["error"] is None) == (other["error"] is None)
        assert one["score"] is None or abs(one["score"] - other["score"]) < 1e-4


def test_a_job_that_a_server_refuses_ends_in_one_line(server: Server) -> None:
    places = ("--input", "rows.csv", "--output", "refused.csv")
    (server.project.root / "rows.csv").write_text("text\nhello\n")
    ran = run_marina(server.project, "score", MODEL, *places, "--url", server.url, "--token", "wrong")
    assert ran.returncode == 1
    assert "oken" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (server.project.root / "refused.csv").exists()
