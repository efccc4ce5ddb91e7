"""JSON Lines, streams and jobs in bulk against the real TorchServe."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import requests

from marina.client import Client
from marina.errors import RefusedError
from tests.conftest import scores
from tests.end_to_end.conftest import Server, run_marina
from tests.end_to_end.test_serve import many_texts

MODEL = "classify"


def test_each_line_gets_a_line(tiny_server: Server) -> None:
    body = b'"change company address"\n{"inputs": "hello", "parameters": {"top_k": 1}}\n{"inputs": 3}\n'
    headers = {"Authorization": f"Bearer {tiny_server.token()}", "Content-Type": "application/jsonlines"}
    response = requests.post(f"{tiny_server.url}/predictions/{MODEL}", data=body, headers=headers, timeout=60)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/jsonlines"
    first, second, third = map(json.loads, response.text.splitlines())
    assert len(first) > 1
    assert len(second) == 1
    assert third["type"] == "InvalidInstance"


def test_a_stream_gets_the_answers_of_single_requests(tiny_server: Server) -> None:
    instances: list[Any] = [*many_texts() * 3, 3]  # more than a request may have
    with Client.http(tiny_server.url, tiny_server.token()) as client:
        found = list(client.stream(MODEL, enumerate(instances)))
        alone = [client.predict(MODEL, text) for text in instances[:20]]
    assert [one.key for one in found] == list(range(len(instances)))
    assert isinstance(found[-1].error, RefusedError)
    assert {one.error for one in found[:-1]} == {None}
    for one, answer in zip(found, alone, strict=False):
        assert scores(one.answer) == dict.fromkeys(scores(answer)) | scores(one.answer)
        assert all(abs(scores(one.answer)[label] - score) < 1e-4 for label, score in scores(answer).items())


def test_a_job_that_a_server_answers_equals_one_without(tiny_server: Server) -> None:
    root = tiny_server.project.root
    texts = [*many_texts(), None]
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), root / "rows.parquet")
    same = ("score", MODEL, "--input", "rows.parquet", "--keep", "id", "--output")
    for arguments in (("here.parquet",), ("there.parquet", "--url", tiny_server.url, "--token", tiny_server.token())):
        ran = run_marina(tiny_server.project, *same, *arguments)
        assert ran.returncode == 0, ran.stderr
        assert "201 rows, 200 answered, 1 errors" in ran.stdout
    here, there = (pq.read_table(root / f"{name}.parquet") for name in ("here", "there"))
    assert here.schema == there.schema
    for one, other in zip(here.to_pylist(), there.to_pylist(), strict=True):
        assert (one["id"], one["label"], one["truncated"]) == (other["id"], other["label"], other["truncated"])
        assert (one["error"] is None) == (other["error"] is None)
        assert one["score"] is None or abs(one["score"] - other["score"]) < 1e-4


def test_a_job_that_a_server_refuses_ends_in_one_line(tiny_server: Server) -> None:
    places = ("--input", "rows.csv", "--output", "refused.csv")
    (tiny_server.project.root / "rows.csv").write_text("text\nhello\n")
    ran = run_marina(tiny_server.project, "score", MODEL, *places, "--url", tiny_server.url, "--token", "wrong")
    assert ran.returncode == 1
    assert "oken" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (tiny_server.project.root / "refused.csv").exists()
