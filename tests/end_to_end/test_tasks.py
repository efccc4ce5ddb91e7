"""Every task over every protocol of the real TorchServe, with small random models and clients that others wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import openai
import openapi_spec_validator
import pytest
import requests
import tritonclient.http
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from hypothesis import HealthCheck, given, settings

from handlers.worker.archive.unpack import unpack
from marina import Client
from marina.bench.server.largest_requests import LargestRequests
from marina.errors import ClientError, FailedError, RefusedError, UnauthorizedError, UnknownModelError, UnreachableError
from marina.server.openapi import camel, openapi
from marina.spec import read_spec
from tests.conftest import ROOT, WORDS
from tests.embedders import PROMPTS
from tests.end_to_end.conftest import TASKS, Server, run_grpc
from tests.end_to_end.proxies import needs_nginx, nginx
from tests.handlers.worker.request.test_protocols import bodies
from tests.handlers.worker.tasks.architectures import NER_LABELS
from tests.marina.client.servers import make_certificate
from tests.ports import free_ports

DOCUMENTED = {
    "resume-search": "embed",
    "splade": "sparse",
    "colbert": "late",
    "ava-intent": "classify",
    "resume-ner": "tag",
    "help-qa": "answer",
    "search-rerank": "rank",
}
TEXT = "please send the invoice to our account manager"
QUESTION = {"question": "who led the team", "context": "senior engineer, led a team of five years, thanks"}


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, tiny_server: Server) -> Iterator[Client]:
    port = tiny_server.ports[0 if request.param == "http" else 3]
    address = f"http://127.0.0.1:{port}" if request.param == "http" else f"127.0.0.1:{port}"
    with getattr(Client, request.param)(address, tiny_server.token, timeout_s=30) as made:
        yield made


def test_our_client_has_a_method_a_task(client: Client) -> None:
    (vector,) = client.embed("embed", [TEXT])
    assert len(vector) == 32
    assert client.embed("embed", [TEXT], prompt_name="query") == client.embed("embed", [PROMPTS["query"] + TEXT])
    one, two = client.classify("classify", [TEXT, ("ok", "thanks")], top_k=1)
    assert set(one[0]) == set(two[0]) == {"label", "score"}
    (entities,) = client.classify_tokens("tag", [TEXT], aggregation_strategy="first")
    assert all(TEXT[e["start"] : e["end"]].lower() == e["word"] for e in entities)
    best, second = client.answer("answer", QUESTION["question"], QUESTION["context"], top_k=2)
    assert best["score"] >= second["score"]
    assert QUESTION["context"][best["start"] : best["end"]] == best["answer"]
    assert len(client.answer("answer", QUESTION["question"], QUESTION["context"])) == 1
    ranked = client.rerank("rank", QUESTION["question"], [TEXT, QUESTION["context"], ""])
    assert sorted(document["index"] for document in ranked) == [0, 1, 2]
    assert [document["score"] for document in ranked] == sorted((d["score"] for d in ranked), reverse=True)


@pytest.mark.parametrize("name", [*TASKS, "match"])
def test_requests_that_memory_is_measured_with_are_answered(tiny_server: Server, name: str, tmp_path: Path) -> None:
    project = tiny_server.project
    unpack(project.model_store / f"{name}.mar", tmp_path / name)
    specs = [
        read_spec(project.models / f"{member}.yaml") for member in (("embed", "rank") if name == "match" else (name,))
    ]
    for spec in specs:
        folder = tmp_path / name / "artifact" / (spec.name if len(specs) > 1 else "")
        requests = LargestRequests(spec, folder, bundle=len(specs) > 1)
        for body in (requests.many(max(1, requests.max_texts // 2), 0), requests.long(1, 0)):
            response = tiny_server.post(name, body)
            assert response.status_code == 200, response.text
        assert tiny_server.post(name, requests.long(requests.max_times, 0)).status_code in (200, 400, 413)


def test_a_chain_needs_one_request(client: Client, tiny_server: Server) -> None:
    documents = [" ".join(WORDS[start : start + 3]) for start in range(8)]
    (query,) = map(np.array, client.embed("match:embed", [TEXT], prompt_name="query"))
    vectors = np.array(client.embed("match:embed", documents, prompt_name="document"))
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1)
    kept = np.sort(np.argsort(-cosines)[:3])
    expected = client.rerank("match:rank", TEXT, [documents[number] for number in kept])
    answer = client.rerank("match", TEXT, documents, candidates=3)
    assert [entry["index"] for entry in answer] == [kept[entry["index"]] for entry in expected]
    assert [entry["score"] for entry in answer] == pytest.approx([entry["score"] for entry in expected], abs=1e-5)
    raw = client.rerank("match", TEXT, documents, candidates=3, function_to_apply="none")
    scores = [1 / (1 + np.exp(-entry["score"])) for entry in raw]
    assert scores == pytest.approx([entry["score"] for entry in answer], abs=1e-5)
    with pytest.raises(ClientError, match="may be sigmoid or none"):
        client.rerank("match", TEXT, documents, candidates=3, function_to_apply="default")
    options = [part for document in documents for part in ("--document", document)]
    printed = tiny_server.marina("predict", "match", TEXT, *options, "--candidates", "3", "--json")
    assert json.loads(printed.stdout) == answer
    best = tiny_server.marina("predict", "match", TEXT, *options, "--candidates", "3", "--set", "top_n=1", "--json")
    assert json.loads(best.stdout) == answer[:1]
    refused = tiny_server.marina("predict", "match", TEXT, *options, "--candidates", "3", "--set", "nonsense=1")
    assert "--set top_n=3" in refused.stderr


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_python_of_the_docs_runs(tiny_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "guides" / "clients.md").read_text()
    _, asks, streams, connects, _ = python_blocks(page)  # the last is of Triton's client over gRPC
    for documented, tiny in DOCUMENTED.items():
        asks, streams = asks.replace(documented, tiny), streams.replace(documented, tiny)
    asks = asks.replace("8080", str(tiny_server.ports[0]))
    exec(asks, {"token": tiny_server.token, "page": QUESTION["context"], "pages": [TEXT, QUESTION["context"]]})
    answered: dict[str, Any] = {"resumes": enumerate([TEXT] * 3)}
    with Client.http(tiny_server.url, tiny_server.token()) as answered["client"]:
        exec(streams, answered)
    assert (answered["key"], answered["error"], answered["truncated"]) == (2, None, False)
    make_certificate(tmp_path).file.rename(tmp_path / "authority.pem")
    monkeypatch.chdir(tmp_path)
    exec(f"from marina import Client\n{connects}", {"token": "t"})


def test_our_client_raises_what_went_wrong(client: Client, tiny_server: Server) -> None:
    with pytest.raises(RefusedError, match=r"inputs\[0\]: the field \"context\" is missing") as refused:
        client.predict("answer", [{"question": "x"}])
    assert (refused.value.kind, refused.value.status) == ("InvalidInstance", 400)
    with pytest.raises(UnknownModelError):
        client.embed("nothing", [TEXT])
    for wrong in (
        Client.http(f"http://127.0.0.1:{tiny_server.ports[0]}", "wrong"),
        Client.grpc(f"127.0.0.1:{tiny_server.ports[3]}", "wrong"),
    ):
        with wrong, pytest.raises(UnauthorizedError):
            wrong.embed("embed", [TEXT])
    for dead in (Client.http("http://127.0.0.1:9", timeout_s=2), Client.grpc("127.0.0.1:9", timeout_s=2)):
        with dead, pytest.raises(UnreachableError, match="no answer from"):
            dead.embed("embed", [TEXT])


def test_our_client_renews_a_token_that_is_refused(tiny_server: Server) -> None:
    for connect, address in (
        (Client.http, f"http://127.0.0.1:{tiny_server.ports[0]}"),
        (Client.grpc, f"127.0.0.1:{tiny_server.ports[3]}"),
    ):
        tokens = iter(["wrong", tiny_server.token()])
        with connect(address, tokens.__next__, timeout_s=30) as client:
            assert len(client.embed("embed", [TEXT])) == 1


def test_tokens_and_binary_embeddings(tiny_server: Server) -> None:
    for connect, address in (
        (Client.http, f"http://127.0.0.1:{tiny_server.ports[0]}"),
        (Client.grpc, f"127.0.0.1:{tiny_server.ports[3]}"),
    ):
        with connect(address, tiny_server.token, timeout_s=30) as client:
            tokens = client.tokenize("embed", ["ok", "ok thanks"], prompt_name=None)
            assert [[token["text"] for token in text] for text in tokens][1] == ["[CLS]", "ok", "thanks", "[SEP]"]
            (whole,), (signs,) = client.embed("embed", [TEXT]), client.embed("embed", [TEXT], precision="ubinary")
            assert signs == np.packbits(np.array(whole) > 0).tolist()


def test_sparse_embeddings(tiny_server: Server) -> None:
    for connect, address in (
        (Client.http, f"http://127.0.0.1:{tiny_server.ports[0]}"),
        (Client.grpc, f"127.0.0.1:{tiny_server.ports[3]}"),
    ):
        with connect(address, tiny_server.token, timeout_s=30) as client:
            whole, few = (client.embed_sparse("sparse", [TEXT], max_active_dims=size)[0] for size in (None, 4))
            assert len(few) == 4 < len(whole)
            assert min(few.values()) >= max(weight for index, weight in whole.items() if index not in few)
            with pytest.raises(FailedError, match="sparse has another task than embed is for; call embed_sparse"):
                client.embed("sparse", [TEXT])
    shown = tiny_server.marina("predict", "sparse", TEXT, "--set", "format=tokens", "--set", "max_active_dims=3")
    assert shown.returncode == 0, shown.stderr
    assert len(post(tiny_server, "/predictions/sparse", {"inputs": TEXT, "max_active_dims": 2})) == 2
    print(shown.stdout)


def test_multi_vector_embeddings(tiny_server: Server) -> None:
    for connect, address in (
        (Client.http, f"http://127.0.0.1:{tiny_server.ports[0]}"),
        (Client.grpc, f"127.0.0.1:{tiny_server.ports[3]}"),
    ):
        with connect(address, tiny_server.token, timeout_s=30) as client:
            (query,) = map(np.array, client.embed_multi_vector("late", [TEXT], is_query=True))
            documents = [np.array(each) for each in client.embed_multi_vector("late", [TEXT, "ok"])]
            expected = [float((query @ document.T).max(1).sum()) for document in documents]
            ranked = client.rerank("late", TEXT, [TEXT, "ok"])
            assert {entry["index"]: entry["score"] for entry in ranked} == pytest.approx(
                dict(enumerate(expected)), abs=1e-3
            )
            with pytest.raises(FailedError, match="late has another task than embed is for; call embed_multi_vector"):
                client.embed("late", [TEXT])
    assert tiny_server.marina("predict", "late", TEXT).returncode == 0


def test_labels_of_a_request(tiny_server: Server) -> None:
    labels = ["invoice", "password", "mouse"]
    for connect, address in (
        (Client.http, f"http://127.0.0.1:{tiny_server.ports[0]}"),
        (Client.grpc, f"127.0.0.1:{tiny_server.ports[3]}"),
    ):
        with connect(address, tiny_server.token, timeout_s=30) as client:
            (ranked,) = client.classify_zero_shot("nli", [TEXT], labels)
            assert sorted(entry["label"] for entry in ranked) == sorted(labels)
            assert sum(entry["score"] for entry in ranked) == pytest.approx(1)
            (several,) = client.classify_zero_shot("nli", [TEXT], labels, multi_label=True, hypothesis_template="{}?")
            assert all(0 < entry["score"] < 1 for entry in several)
    shown = tiny_server.marina("predict", "nli", TEXT, "--label", "invoice", "--label", "mouse")
    assert {line.split()[0] for line in shown.stdout.splitlines()[1:]} == {"invoice", "mouse"}, shown.stderr
    (default,) = post(tiny_server, "/v1/models/nli:predict", {"instances": [TEXT]})["predictions"]
    assert {entry["label"] for entry in default} == {"invoice", "mouse"}


def post(server: Server, path: str, document: Any) -> Any:
    headers = {"Authorization": f"Bearer {server.token()}"}
    response = requests.post(f"http://127.0.0.1:{server.ports[0]}{path}", json=document, headers=headers, timeout=30)
    assert response.status_code == 200, response.text
    return response.json()


def test_kserve_v1(tiny_server: Server) -> None:
    plain = post(tiny_server, "/predictions/classify", {"inputs": [TEXT, "ok"]})
    assert post(tiny_server, "/v1/models/classify:predict", {"instances": [TEXT, "ok"]}) == {"predictions": plain}
    answered = post(tiny_server, "/v1/models/answer:predict", {"instances": [QUESTION], "parameters": {"top_k": 2}})
    assert len(answered["predictions"][0]) == 2


def test_open_inference_v2_by_hand(tiny_server: Server) -> None:
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES", "data": [TEXT, "ok"]}
    document = post(tiny_server, "/v2/models/embed/infer", {"id": "1", "inputs": [tensor]})
    (output,) = document["outputs"]
    assert (document["model_name"], document["id"]) == ("embed", "1")
    assert (output["name"], output["datatype"], output["shape"]) == ("embedding", "FP32", [2, 32])
    plain = post(tiny_server, "/predictions/embed", {"inputs": [TEXT, "ok"]})
    assert np.allclose(np.reshape(output["data"], [2, 32]), plain, atol=1e-6)


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client(tiny_server: Server, binary: bool) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    triton = tritonclient.http.InferenceServerClient(f"127.0.0.1:{tiny_server.ports[0]}")

    def infer(model: str, outputs: list[str] | None = None, **texts: list[str]) -> Any:
        inputs = []
        for name, values in texts.items():
            tensor = tritonclient.http.InferInput(name, [len(values)], "BYTES")
            tensor.set_data_from_numpy(np.array(values, dtype=object), binary_data=binary)
            inputs.append(tensor)
        wanted = [tritonclient.http.InferRequestedOutput(o, binary_data=binary) for o in outputs] if outputs else None
        return triton.infer(model, inputs, outputs=wanted, headers=headers)

    embedded = infer("embed", text=[TEXT, "grüße 👍"])
    plain = post(tiny_server, "/predictions/embed", {"inputs": [TEXT, "grüße 👍"]})
    assert np.allclose(embedded.as_numpy("embedding"), plain, atol=1e-6)
    ranked = infer("classify", ["label", "score"], text=["ok"], text_pair=["thanks"])
    assert ranked.as_numpy("score").shape == ranked.as_numpy("label").shape == (1, 2)
    (answer,) = infer("answer", **{name: [text] for name, text in QUESTION.items()}).as_numpy("answer")
    assert json.loads(answer)["answer"] in QUESTION["context"]
    with pytest.raises(tritonclient.http.InferenceServerException, match="the inputs must be named"):
        infer("answer", question=["a"], other=["b"])
    tensor = tritonclient.http.InferInput("text", [1], "BYTES")
    tensor.set_data_from_numpy(np.array(["ok"], dtype=object), binary_data=binary)
    classes = [tritonclient.http.InferRequestedOutput("score", binary_data=binary, class_count=1)]
    with pytest.raises(tritonclient.http.InferenceServerException, match="has no classes to count"):
        triton.infer("classify", [tensor], outputs=classes, headers=headers)


EXCHANGES: list[tuple[str, Any]] = [
    *((name, {"inputs": TEXT}) for name in ("classify", "tag", "embed")),
    *((name, {"instances": [TEXT, "ok"]}) for name in ("classify", "tag", "embed")),
    ("classify", {"inputs": [TEXT, {"text": "a", "text_pair": "b"}], "parameters": {"top_k": 1}}),
    ("tag", {"inputs": [TEXT], "parameters": {"aggregation_strategy": "simple"}}),
    ("answer", {"inputs": QUESTION}),
    ("answer", {"inputs": [QUESTION, QUESTION], "parameters": {"top_k": 2}}),
    ("rank", {"inputs": [{"query": "a", "document": "b"}, {"query": "a", "document": ""}]}),
    ("rank", {"query": "a", "texts": ["b", "c"], "return_text": True, "top_n": 1}),
    ("rank", {"query": "a", "documents": ["b", {"text": "c"}], "return_documents": True, "raw_scores": True}),
    ("embed", {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}),
    ("embed", {"input": ["a", "b"], "model": "any", "encoding_format": "base64"}),
]


@pytest.mark.parametrize(("name", "body"), EXCHANGES)
def test_requests_and_answers_are_as_openapi_says(tiny_server: Server, name: str, body: Any) -> None:
    document = openapi()

    def validate(value: Any, schema: str) -> None:
        whole = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
        jsonschema.Draft202012Validator(whole).validate(value)

    title = camel(TASKS[name])
    validate(body, f"{title}Request")
    response = tiny_server.post(name, body)
    assert response.status_code == 200
    validate(response.json(), f"{title}Response")
    wrong = {**body, "parameters": {"nonsense": 1}}
    with pytest.raises(jsonschema.ValidationError):
        validate(wrong, f"{title}Request")
    refused = tiny_server.post(name, wrong)
    assert refused.status_code == 400
    validate(refused.json(), "Error")


def test_the_openapi_document_is_valid() -> None:
    openapi_spec_validator.validate(openapi())


@needs_nginx
@pytest.mark.parametrize("url", ["rank/rerank", "rank/v1/rerank", "rank/v2/rerank"])
def test_clients_rerank_through_nginx(tiny_server: Server, tmp_path: Path, url: str) -> None:
    (port,) = free_ports(1)
    changes = {"8080": str(tiny_server.ports[0]), "8090": str(port)}
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    request = {"query": "invoice", "texts": [TEXT, "ok", "thanks"]}
    with nginx(tmp_path, (ROOT / "deploy" / "nginx.conf").read_text(), changes, port):
        answer = requests.post(f"http://127.0.0.1:{port}/{url}", json=request, headers=headers, timeout=30)
        unknown = requests.post(f"http://127.0.0.1:{port}/other/rerank", json=request, headers=headers, timeout=30)
    assert answer.status_code == 200
    assert answer.json() == tiny_server.post("rank", request).json()
    assert [set(entry) for entry in answer.json()] == [{"index", "score"}] * 3
    assert unknown.status_code == 404


@needs_nginx
def test_openais_client_behind_nginx(tiny_server: Server, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    changes = {"8080": str(tiny_server.ports[0]), "8090": str(port)}
    with nginx(tmp_path, (ROOT / "deploy" / "nginx.conf").read_text(), changes, port):
        address, token = f"http://127.0.0.1:{port}/embed/v1", tiny_server.token()
        documented, *_ = python_blocks((ROOT / "docs" / "guides" / "clients.md").read_text())
        names: dict[str, Any] = {"token": token}
        exec(documented.replace("8090", str(port)).replace("resume-search", "embed"), names)
        names["client"].close()
        with openai.OpenAI(base_url=address, api_key=token, max_retries=0) as own:
            plain = tiny_server.post("embed", {"inputs": [TEXT, "ok"]}).json()
            for options in ({}, {"encoding_format": "float"}):  # the client asks for base64 by default
                answer = own.embeddings.create(model="any", input=[TEXT, "ok"], **options)
                assert [one.embedding for one in answer.data] == [pytest.approx(one, abs=1e-6) for one in plain]
                assert answer.model == "embed"
                assert answer.usage.prompt_tokens == answer.usage.total_tokens > 2
            raw = own.embeddings.with_raw_response.create(
                model="any", input="ok", extra_headers={"X-Request-Id": "abc-123"}
            )
            assert raw.headers["x-request-id"] == "abc-123"
            assert raw.headers["server-timing"].startswith("queue;dur=")
            with pytest.raises(openai.BadRequestError) as refused:
                own.embeddings.create(model="any", input=[[1, 2]])
            assert "lists of tokens are not taken" in refused.value.response.json()["error"]


def test_the_hugging_face_hub_client(tiny_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def hub(name: str) -> InferenceClient:
        return InferenceClient(f"http://127.0.0.1:{tiny_server.ports[0]}/predictions/{name}", token=tiny_server.token())

    assert {element.label for element in hub("classify").text_classification(TEXT)} == {"LABEL_0", "LABEL_1"}
    chosen = hub("nli").zero_shot_classification(TEXT, ["invoice", "mouse"], multi_label=True)
    assert {element.label for element in chosen} == {"invoice", "mouse"}
    entities = hub("tag").token_classification(TEXT, aggregation_strategy="simple")
    assert all(entity.word for entity in entities)
    assert hub("tag").token_classification(TEXT)[0].entity in NER_LABELS
    answer = hub("answer").question_answering(**QUESTION)
    assert answer.answer in QUESTION["context"]
    assert hub("embed").feature_extraction(TEXT).shape == (32,)
    unit = hub("embed").feature_extraction([TEXT, "ok " * 99], normalize=True, truncate=True)
    assert np.linalg.norm(unit, axis=1) == pytest.approx([1, 1])
    prompted = hub("embed").feature_extraction(TEXT, prompt_name="query")
    alone = hub("embed").feature_extraction(f"change the {TEXT}")
    assert prompted == pytest.approx(alone, abs=1e-6)
    with pytest.raises(HfHubHTTPError, match="at most 64 are allowed"):
        hub("embed").feature_extraction("ok " * 99, truncate=False)
    with pytest.raises(HfHubHTTPError, match="there is no prompt"):
        hub("embed").feature_extraction(TEXT, prompt_name="none such")
    similar = hub("embed").sentence_similarity(TEXT, other_sentences=[TEXT, "ok"])
    assert similar[0] == pytest.approx(1)
    assert similar[1] < 0.99


def test_streams_over_grpc_are_answered_and_harm_nobody(tiny_server: Server, tmp_path: Path) -> None:
    """One call of StreamPredictions used to end the worker's thread in TorchServe."""
    (pid,) = tiny_server.worker_pids("embed")
    code = """
from concurrent.futures import ThreadPoolExecutor
def stream(body):
    return [read(part) for part in stub.StreamPredictions(request("embed", data=body), metadata=metadata, timeout=30)]
with ThreadPoolExecutor(16) as threads:
    streamed = list(threads.map(stream, [b"ok", b'{"inputs": 5}'] * 12))
plain = read(stub.Predictions(request("embed", data=b"ok"), metadata=metadata))
both = stub.StreamPredictions2(iter([request("embed", data=b"ok")]), metadata=metadata, timeout=5)
try:
    answers = [read(part) for part in both if part.prediction]
except grpc.RpcError as error:
    answers = str(error.code())
print(json.dumps([streamed, plain, answers]))
"""
    streamed, plain, _ = run_grpc(tiny_server, tmp_path, code)
    assert len(streamed) == 24
    for number, parts in enumerate(streamed):
        (answer,) = parts
        assert answer["code"] == 400 if number % 2 else np.allclose(answer, plain, atol=1e-6)
    assert tiny_server.worker_pids("embed") == [pid]
    assert len(post(tiny_server, "/predictions/embed", {"inputs": "ok"})) == 32


@pytest.mark.torchserve  # other hosts answer 405
def test_a_request_without_a_body_is_no_text(tiny_server: Server) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    url = f"{tiny_server.url}/predictions/embed"
    response = requests.get(url, params={"data": "hello"}, headers=headers, timeout=30)
    assert (response.status_code, response.json()["type"]) == (400, "NoBody")


def test_nothing_at_all_is_no_text(tiny_server: Server) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    url = f"http://127.0.0.1:{tiny_server.ports[0]}/predictions/embed"
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    for response in (
        requests.post(url, params={"data": "hello"}, headers=headers, timeout=30),
        requests.post(url, headers=headers, timeout=30),
        requests.post(url, data="data=hello", headers=form, timeout=30),
        requests.post(url, data="body=hello", headers=form, timeout=30),
    ):
        assert (response.status_code, response.json()["type"]) == (400, "NoBody")
    empty = requests.post(url, data=b"", headers={**headers, "Content-Type": "text/plain"}, timeout=30)
    assert empty.status_code == 200
    assert len(empty.json()) == 32


def test_compressed_bodies(tiny_server: Server) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    triton = tritonclient.http.InferenceServerClient(f"127.0.0.1:{tiny_server.ports[0]}")
    tensor = tritonclient.http.InferInput("text", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([TEXT], dtype=object), binary_data=True)
    plain = post(tiny_server, "/predictions/embed", {"inputs": TEXT})
    for algorithm in ("gzip", "deflate"):
        answer = triton.infer("embed", [tensor], headers=dict(headers), request_compression_algorithm=algorithm)
        assert np.allclose(answer.as_numpy("embedding")[0], plain, atol=1e-6)
    url = f"http://127.0.0.1:{tiny_server.ports[0]}/predictions/embed"
    for kind in ("application/json", "text/plain"):
        own = {**headers, "Content-Type": kind, "Content-Encoding": "br"}
        refused = requests.post(url, data=b"\x1b\x03", headers=own, timeout=30)
        assert (refused.status_code, refused.json()["type"]) == (415, "UnknownEncoding")


def test_what_serves_is_described_over_the_management_api(tiny_server: Server) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token('management')}"}
    url = f"http://127.0.0.1:{tiny_server.ports[1]}/models/tag?customized=true"
    described = requests.get(url, headers=headers, timeout=30).json()[0]["customizedMetadata"]
    assert described["task"] == "token-classification"
    assert described["labels"] == {"logits": list(NER_LABELS)}
    assert described["engine"] == "openvino"
    assert described["parity"]["served"] < described["parity"]["tolerance"]


def test_text_that_was_cut_is_told(tiny_server: Server) -> None:
    headers = {"Authorization": f"Bearer {tiny_server.token()}"}
    url = f"http://127.0.0.1:{tiny_server.ports[0]}/predictions/embed"
    response = requests.post(url, json={"inputs": ["ok", "ok " * 99]}, headers=headers, timeout=30)
    assert response.headers["x-marina-truncated"] == "1"
    assert "x-marina-truncated" not in requests.post(url, json={"inputs": "ok"}, headers=headers, timeout=30).headers


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies)
def test_no_body_harms_the_live_server(tiny_server: Server, body: bytes) -> None:
    response = tiny_server.post("answer", body)
    assert response.status_code in (200, 400, 413), response.text


def test_the_workers_have_outlived_all_of_that(tiny_server: Server) -> None:
    log = (tiny_server.project.run / "logs" / "model_log.log").read_text()
    assert "Backend worker process died" not in log
    for name in TASKS:
        assert len(tiny_server.worker_pids(name)) == 1
