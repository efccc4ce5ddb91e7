"""The real TorchServe with the default models, over HTTP and gRPC."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import torch
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from handlers.worker.hosts.torchserve_metrics import INTERVAL_S
from tests.conftest import WORDS, scores
from tests.embedders import WIDTH
from tests.end_to_end.both_engines import serve_small, serve_trained
from tests.end_to_end.conftest import Server, run_grpc
from tests.waiting import wait_until

ENGINES = ("", "-torchscript")


def many_texts() -> list[str]:
    """200 texts of nothing to more than 128 tokens: words, emoji, other scripts, odd spaces."""
    generator = np.random.default_rng(7)
    pieces = [*WORDS, "👍🏽", "🎉", "日本語", "Straße", "пароль", "पता", "عنوان", "\t", "\u200b", "a\u0301", "x" * 40]
    lengths = [0, 1, 2, *generator.integers(1, 128, 197)]
    return [" ".join(generator.choice(pieces, length)) for length in lengths]


def tokens(folder: Path, text: str) -> Any:
    return tokenizer_of(folder)(text, truncation=True, max_length=128, return_tensors="pt")


@cache
def tokenizer_of(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serve_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def trained_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serve_trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return many_texts()


@pytest.fixture(scope="session", params=["server", pytest.param("trained_server", marks=pytest.mark.long)])
def any_server(request: pytest.FixtureRequest) -> Server:
    """One with small models, or that of the demonstration."""
    running: Server = request.getfixturevalue(request.param)
    return running


def folder_of(server: Server, name: str) -> Path:
    """The Hugging Face folder of a model."""
    return server.project.root / "weights" / name


@pytest.fixture(scope="module")
def embeddings(any_server: Server, texts: list[str]) -> list[Any]:
    """The embeddings of the eager model, pooled and normalised as its model card says."""
    folder = folder_of(any_server, "resume-search")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        vectors = [model(**tokens(folder, text)).last_hidden_state.mean(1)[0] for text in texts]
    return [torch.nn.functional.normalize(vector, dim=0).numpy() for vector in vectors]


@pytest.fixture(scope="module")
def intents(any_server: Server, texts: list[str]) -> list[dict[str, float]]:
    """The scores of the eager classifier."""
    folder = folder_of(any_server, "ava-intent")
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = [model(**tokens(folder, text)).logits.softmax(-1)[0].tolist() for text in texts]
    return [{model.config.id2label[i]: score for i, score in enumerate(row)} for row in rows]


def answers_of(server: Server, model: str, texts: list[str]) -> list[Any]:
    """The answers to texts in requests of 10, which need less than the deadline on a slow machine too."""
    parts = [texts[start : start + 10] for start in range(0, len(texts), 10)]
    return [answer for part in parts for answer in _predictions(server, model, part)]


def _predictions(server: Server, model: str, instances: list[str]) -> list[Any]:
    """The answers to a request, which is sent again while the server is too busy for it."""
    for _ in range(30):
        response = server.post(model, {"instances": instances})
        if response.status_code != 503:
            break
        time.sleep(1)
    assert response.status_code == 200, response.text
    return list(response.json()["predictions"])


@pytest.mark.parametrize("suffix", ENGINES)
def test_embeddings_are_those_of_the_eager_model(
    any_server: Server, texts: list[str], embeddings: list[Any], suffix: str
) -> None:
    answers = answers_of(any_server, f"resume-search{suffix}", texts)
    assert np.abs(np.array(answers) - np.array(embeddings)).max() < 1e-4
    alone = [any_server.post(f"resume-search{suffix}", text.encode(), "text/plain").json() for text in texts[:20]]
    assert np.abs(np.array(alone) - np.array(embeddings[:20])).max() < 1e-4


@pytest.mark.parametrize("suffix", ENGINES)
def test_intents_are_those_of_the_eager_model(
    any_server: Server, texts: list[str], intents: list[dict[str, float]], suffix: str
) -> None:
    answers = answers_of(any_server, f"ava-intent{suffix}", texts)
    for answer, expected in zip(answers, intents, strict=True):
        assert scores(answer) == pytest.approx(expected, abs=1e-4)


def test_a_pair_is_read_as_two_texts(any_server: Server) -> None:
    pair = {"text": "change company address", "text_pair": "download the latest version"}
    folder = folder_of(any_server, "ava-intent")
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoded = tokenizer_of(folder)(*pair.values(), return_tensors="pt")
    with torch.no_grad():
        expected = model(**encoded).logits.softmax(-1)[0]
    answer = any_server.post("ava-intent", {"inputs": pair}).json()
    for label, score in scores(answer).items():
        assert score == pytest.approx(float(expected[model.config.label2id[label]]), abs=1e-4)


def test_requests_at_the_same_time_share_batches_and_bad_ones_fail_alone(server: Server) -> None:
    texts = [f"{WORDS[number % 30]} invoice" for number in range(48)]
    headers = {"Authorization": f"Bearer {server.token()}", "Content-Type": "application/json"}
    before = batches(server, "ava-intent")
    connections = [HTTPConnection("127.0.0.1", server.ports[0], timeout=60) for _ in texts]
    for connection in connections:
        connection.connect()
    for number, (connection, text) in enumerate(zip(connections, texts, strict=True)):
        body = json.dumps({"inputs": 5 if number % 4 == 0 else text})
        connection.request("POST", "/predictions/ava-intent", body, headers)  # without waiting for its answer
    answers = []
    for number, connection in enumerate(connections):
        response = connection.getresponse()
        assert response.status == (400 if number % 4 == 0 else 200)
        answers.append(json.loads(response.read()))
        connection.close()
    taken = batches(server, "ava-intent", after=len(texts)) - before
    assert 0 < taken < len(texts)
    # what else is in a batch changes no answer
    for number in (1, 31):
        alone = server.post("ava-intent", {"inputs": texts[number]}).json()
        assert scores(answers[number]) == pytest.approx(scores(alone), abs=1e-4)
    assert len(server.worker_pids("ava-intent")) == 1


def batches(server: Server, model: str, after: int = 0) -> float:
    """How many batches a model's worker has answered, once it has handed over what it counted of so many requests."""
    deadline = time.monotonic() + 30
    while True:
        page = requests.get(f"http://127.0.0.1:{server.ports[2]}/metrics", timeout=10).text
        counts = {
            sample.name.removesuffix("_total"): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels.get("ModelName") == model
        }
        if counts.get("marina_batch_requests_sum", 0.0) >= after or time.monotonic() > deadline:
            return counts.get("marina_batch_requests_count", 0.0)
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"{", "application/json", "InvalidJson"),
        (b"\xff\xfe", "text/plain", "InvalidEncoding"),
        (b'{"inputs": "\\ud800"}', "application/json", "InvalidText"),
        (b"[" * 200_000, "application/json", "InvalidJson"),
        (b"inputs=hello", "application/x-www-form-urlencoded", "NoBody"),
        (b'{"inputs": "' + b"a" * 100_001 + b'"}', "application/json", "TooManyCharacters"),
    ],
)
def test_bad_bodies_get_a_reason(server: Server, body: bytes, content_type: str, kind: str) -> None:
    (pid,) = server.worker_pids("ava-intent")
    response = server.post("ava-intent", body, content_type)
    assert (response.status_code, response.json()["type"]) == (400, kind)
    assert server.worker_pids("ava-intent") == [pid]


def test_strangers_are_refused(server: Server) -> None:
    inference, management = (f"http://127.0.0.1:{port}" for port in server.ports[:2])
    wrong = {"Authorization": f"Bearer {server.token('inference')}"}
    refused = 401 if os.environ.get("MARINA_HOST") == "direct" else 400  # TorchServe has a status of its own
    assert requests.post(f"{inference}/predictions/ava-intent", data="a", timeout=10).status_code == refused
    assert requests.get(f"{management}/models", timeout=10).status_code == refused
    for headers in ({}, wrong):
        url = f"{management}/models?url=ava-intent.mar&model_name=other"
        assert requests.post(url, headers=headers, timeout=10).status_code == refused
        assert requests.delete(f"{management}/models/ava-intent", headers=headers, timeout=10).status_code == refused


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x.mar", "file:///etc/passwd", "../x.mar", "/etc/passwd"])
def test_archives_come_from_the_store_only(server: Server, url: str) -> None:
    headers = {"Authorization": f"Bearer {server.token('management')}"}
    target = f"http://127.0.0.1:{server.ports[1]}/models"
    response = requests.post(target, params={"url": url}, headers=headers, timeout=10)
    assert response.status_code in (400, 404)


def test_a_killed_worker_comes_back_and_answers(server: Server) -> None:
    (pid,) = server.worker_pids("resume-search")
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (server.worker_pids("resume-search") or [pid]) == [pid]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert len(server.post("resume-search", {"inputs": "ok"}).json()) == WIDTH


def test_texts_and_tokens_are_in_no_log(server: Server) -> None:
    secret = "xyzzy-plugh-4711"
    before = metric(server, "marina_requests_total")
    server.post("ava-intent", {"inputs": secret})
    server.post("ava-intent", {"inputs": [secret, 5]})
    server.post("ava-intent", f'{{"inputs": "{secret}'.encode())
    wait_until(lambda: metric(server, "marina_requests_total") >= before + 3, 30)
    logs = list((server.project.run / "logs").iterdir())
    assert len(logs) >= 2
    for log in logs:
        text = log.read_text(errors="replace")
        assert secret not in text
        assert server.token("inference") not in text
        assert server.token("management") not in text


def test_secrets_do_not_reach_workers(server: Server) -> None:
    (pid,) = server.worker_pids("ava-intent")
    names = {entry.partition("=")[0] for entry in Path(f"/proc/{pid}/environ").read_text().split("\0")}
    assert not names & set(SECRETS)
    assert "PATH" in names


SECRETS = {"AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x", "DB_PASSWORD": "x"}


@pytest.fixture(autouse=True, scope="session")
def secrets_in_the_environment() -> Any:
    """Set before the server starts, so that it could pass them on."""
    os.environ.update(SECRETS)
    yield
    for name in SECRETS:
        del os.environ[name]


def metric(server: Server, name: str, **labels: str) -> float:
    """The sum of a metric over all series of ava-intent with these labels."""
    text = requests.get(f"http://127.0.0.1:{server.ports[2]}/metrics", timeout=10).text
    wanted = [f'{label}="{value}"' for label, value in {"ModelName": "ava-intent", **labels}.items()]
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{") and all(w in line for w in wanted)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_metrics_are_there_for_prometheus(server: Server) -> None:
    time.sleep(2 * INTERVAL_S)  # for what earlier tests left
    names = [
        *("marina_requests_total", "marina_request_seconds_count", "marina_rows_total", "marina_tokens_total"),
        *("marina_calls_total", "marina_batch_requests_sum", "marina_stage_seconds_total"),
    ]
    before = {name: metric(server, name) for name in names}
    assert server.post("ava-intent", {"inputs": ["ok", "change company address"]}).ok
    assert server.post("ava-intent", {"inputs": 5}).status_code == 400
    deadline = time.monotonic() + 10
    while metric(server, "marina_requests_total") < before["marina_requests_total"] + 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    grown = {name: metric(server, name) - before[name] for name in names}
    assert grown["marina_requests_total"] == grown["marina_request_seconds_count"] == 2
    assert (grown["marina_rows_total"], grown["marina_tokens_total"]) == (2, 3 + 5)
    assert grown["marina_batch_requests_sum"] == 2
    assert grown["marina_calls_total"] >= 1
    assert grown["marina_stage_seconds_total"] > 0
    assert metric(server, "marina_request_seconds_bucket", le="+Inf") == metric(server, "marina_request_seconds_count")


def test_grpc_clients_made_from_torchserves_own_protocol_files(server: Server, tmp_path: Path) -> None:
    over_http = server.post("ava-intent", {"inputs": "change company address"}).json()
    code = """
def ask(**inputs):
    return read(stub.Predictions(request("ava-intent", **inputs), metadata=metadata))
print(json.dumps([ask(data=b"change company address"), ask(body=b'{"inputs": ["ok"]}'), ask(data=b'{"inputs": 5}')]))
"""
    text, several, refused = run_grpc(server, tmp_path, code)
    assert scores(text) == pytest.approx(scores(over_http), abs=1e-6)
    assert len(several) == 1
    assert refused["code"] == 400


def test_the_command_line_asks_and_tells(server: Server) -> None:
    answer = server.marina("predict", "ava-intent", "change company address")
    best = server.post("ava-intent", {"inputs": "change company address"}).json()[0]
    assert answer.stdout.splitlines()[1].startswith(best["label"])
    several = json.loads(server.marina("predict", "resume-search", "a", "b", "--json").stdout)
    assert np.shape(several) == (2, WIDTH)
    refused = server.marina("predict", "resume-search", "a", "--pair", "b")
    assert refused.returncode == 1
    assert refused.stderr == 'error: inputs: this model does not take the field "text_pair"\n'
    status = json.loads(server.marina("status", "--json").stdout)
    assert [model["ready"] for model in status["models"]] == [1, 1, 1, 1]
    elsewhere = server.marina("serve", "--port", "9")
    assert elsewhere.returncode == 1
    assert elsewhere.stderr.startswith("error: a server is running already (pid ")


def test_health_says_what_is_not_ready(server: Server) -> None:
    assert server.marina("health").stdout == "healthy\n"
    assert json.loads(server.marina("health", "ava-intent", "--json").stdout) == {"healthy": True, "problems": []}
    unknown = server.marina("health", "ava-intent", "nothing")
    assert (unknown.returncode, unknown.stdout) == (1, "nothing is not registered\n")


def test_failures_are_json_too(server: Server) -> None:
    refused = server.marina("register", "nothing", "--json")
    assert refused.returncode == 1
    assert "nothing.mar does not exist" in json.loads(refused.stdout)["error"]
    failed = server.marina("archive", "nothing", "--json")
    assert failed.returncode == 1
    (document,) = json.loads(failed.stdout)
    assert document["name"] == "nothing"
    assert "no model 'nothing'" in document["error"]


def test_workers_are_scaled_and_logged(server: Server) -> None:
    # by force, since tests that run side by side have a core each
    assert server.marina("scale", "ava-intent", "2", "--force").returncode == 0
    assert len(server.worker_pids("ava-intent")) == 2
    assert server.marina("scale", "ava-intent", "1").returncode == 0
    deadline = time.monotonic() + 30
    while len(server.worker_pids("ava-intent")) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert server.marina("scale", "ava-intent", "0").returncode == 2
    unknown = server.marina("scale", "nothing", "1")
    assert unknown.returncode == 1
    assert "Model not found: nothing" in unknown.stderr
    everything = server.marina("logs").stdout
    own = server.marina("logs", "ava-intent").stdout
    unknown = server.marina("logs", "ava")
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "error: no model ava has logged anything; marina status lists the models\n",
    )
    assert own
    assert set(own.splitlines()) < set(everything.splitlines())
    (model,) = [
        one for one in json.loads(server.marina("status", "--json").stdout)["models"] if one["name"] == "ava-intent"
    ]
    assert all(f"-ava-intent_{model['version']}-" in line for line in own.splitlines())


@pytest.mark.long
def test_models_are_unregistered_and_registered_again(server: Server) -> None:
    assert server.marina("unregister", "ava-intent-torchscript").returncode == 0
    assert server.post("ava-intent-torchscript", {"inputs": "ok"}).status_code == 404
    assert server.marina("unregister", "ava-intent-torchscript").returncode == 1
    assert server.marina("register", "ava-intent-torchscript").returncode == 0
    assert server.post("ava-intent-torchscript", {"inputs": "ok"}).status_code == 200
    # serve registers what is missing, and what is served already goes on
    pids = server.worker_pids("ava-intent")
    assert server.marina("unregister", "ava-intent-torchscript").returncode == 0
    assert server.marina("serve").returncode == 0
    assert server.post("ava-intent-torchscript", {"inputs": "ok"}).status_code == 200
    assert server.worker_pids("ava-intent") == pids
    before = server.worker_pids("ava-intent-torchscript")
    assert server.marina("register", "ava-intent-torchscript").returncode == 0
    assert server.worker_pids("ava-intent-torchscript") == before
    assert server.post("ava-intent-torchscript", {"inputs": "ok"}).status_code == 200
    spec = server.project.models / "ava-intent-torchscript.yaml"
    spec.write_text(spec.read_text() + "version: '1.1'\n")
    packed = server.marina("archive", "ava-intent-torchscript")
    # another version is packed, and not compiled
    assert "reused" in packed.stdout
    assert "unchanged" not in packed.stdout
    # and serve upgrades to it
    assert "1.1" in server.marina("serve").stdout
    assert server.post("ava-intent-torchscript", {"inputs": "ok"}).status_code == 200
    # the same version with other content cannot stand beside itself
    spec.write_text(spec.read_text() + "long_text: reject\n")
    assert server.marina("archive", "ava-intent-torchscript").returncode == 0
    changed = server.marina("upgrade", "ava-intent-torchscript")
    assert changed.returncode == 1
    assert "is served as version 1.1, and" in changed.stderr
    assert "leave version out of the spec, or change it and pack again; marina upgrade" in changed.stderr
    assert server.marina("upgrade", "ava-intent-torchscript", "--replace").returncode == 0
    missing = server.marina("register", "nothing")
    assert missing.returncode == 1
    assert "nothing.mar does not exist; make it with marina archive nothing" in missing.stderr
