"""What `marina deploy ray` writes, on a Ray cluster of two nodes, beside the real TorchServe."""

from __future__ import annotations

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.conftest import ENGINE, WORDS
from tests.end_to_end.conftest import Server
from tests.end_to_end.ray_serve.cluster import BEARER, TASKS, TOKEN, Cluster, needs_ray

pytestmark = [pytest.mark.long, needs_ray]


def some_requests(count: int) -> list[tuple[str, bytes, str]]:
    """URLs, bodies and their types, of every protocol, some of which are wrong."""
    random.seed(1)
    found = []
    for _ in range(count):
        name = random.choice(list(TASKS))
        texts = [" ".join(random.choices(WORDS, k=random.randint(1, 30))) for _ in range(random.randint(1, 5))]
        tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
        predict, v1, v2 = f"predictions/{name}", f"v1/models/{name}:predict", f"v2/models/{name}/infer"
        lines = "\n".join(json.dumps({"inputs": text}) for text in [*texts, 7])
        found.append(
            random.choice(
                [
                    (predict, json.dumps({"inputs": texts}), "application/json"),
                    (predict, texts[0], "text/plain"),
                    (predict, lines, "application/jsonlines"),
                    (v1, json.dumps({"instances": texts}), "application/json"),
                    (v2, json.dumps({"id": "7", "inputs": [tensor]}), "application/json"),
                    (predict, json.dumps({"inputs": [*texts, 5]}), "application/json"),
                    (predict, '{"inputs": ', "application/json"),
                    (predict, json.dumps({"inputs": texts, "parameters": {"nope": 1}}), "application/json"),
                    (predict, "", "application/json"),
                ]
            )
        )
    return [(url, body.encode(), media_type) for url, body, media_type in found]


def alike(one: Any, other: Any) -> bool:
    """Whether two answers are equal but for rounding, as texts are computed in other batches."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 1e-3
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    return bool(one == other)


def parsed(answer: requests.Response) -> list[Any]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_answers_equal_those_of_torchserve(cluster: Cluster, torchserve: Server) -> None:
    asked = some_requests(2000)

    def ask(request: tuple[str, bytes, str]) -> tuple[requests.Response, requests.Response]:
        path, body, media_type = request
        answers = []
        for url, token in ((torchserve.url, torchserve.token()), (cluster.url, TOKEN)):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
            answers.append(requests.post(f"{url}/{path}", data=body, headers=headers, timeout=60))
        return answers[0], answers[1]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, asked))
    assert Counter(one.status_code for one, _ in answers)[200] > 800
    for request, (one, other) in zip(asked, answers, strict=True):
        assert (one.status_code, one.headers["content-type"]) == (other.status_code, other.headers["content-type"])
        assert alike(parsed(one), parsed(other)), (request, one.text, other.text)


def test_the_urls_of_a_server(cluster: Cluster) -> None:
    assert cluster.status("/v2/health/ready") == cluster.status("/v2/health/live") == cluster.status("/v2") == 200
    assert cluster.status("/v2/models/intents/ready") == cluster.status("/v1/models/tags") == 200
    assert cluster.status("/v2/models/other/ready") == cluster.status("/nothing") == 404
    for path in ("predictions/intents", "v1/models/intents:predict"):
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            refused = requests.post(f"{cluster.url}/{path}", json={"inputs": "ok"}, headers=headers, timeout=30)
            assert (refused.status_code, refused.json()["type"]) == (401, "Unauthorized")
    body = {"inputs": ["ok"], "model": "intents"}
    (tokens,) = requests.post(f"{cluster.url}/tokenize", json=body, headers=BEARER, timeout=30).json()
    assert [token["text"] for token in tokens] == ["[CLS]", "ok", "[SEP]"]
    info = requests.get(f"{cluster.url}/info", headers=BEARER, timeout=30).json()
    assert info["models"]["intents"]["model_id"] == "intents"
    named = {**BEARER, "X-Amzn-SageMaker-Custom-Attributes": "tags"}
    assert requests.post(f"{cluster.url}/invocations", json={"inputs": "ok"}, headers=named, timeout=30).ok
    unnamed = requests.post(f"{cluster.url}/invocations", json={"inputs": "ok"}, headers=BEARER, timeout=30)
    assert (unnamed.status_code, unnamed.json()["type"]) == (404, "UnknownModel")
    described = requests.get(f"{cluster.url}/v2/models/Search.v2", headers=BEARER, timeout=30).json()
    assert (described["task"], described["engine"]) == ("sentence-embedding", ENGINE)
    version = described["version"]
    for given, status in ((version, 200), ("other", 404)):
        url = f"{cluster.url}/predictions/Search.v2/{given}"
        assert requests.post(url, json={"inputs": "ok"}, headers=BEARER, timeout=30).status_code == status
