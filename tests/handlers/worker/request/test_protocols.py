"""Bodies to requests and answers to bodies, for every protocol."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.answering.reply import error_reply
from handlers.worker.errors import KINDS, RequestError
from handlers.worker.request.body import decode, decode_lines
from handlers.worker.request.instances import Answered, Request, RequestLimits
from handlers.worker.request.protocols import read_request, write_answers
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import Task
from handlers.worker.values import Instance

LIMITS = RequestLimits(instances=4, characters=50, windows=4, body_bytes=200_000, tokens=1000)
JSON = "application/json"
IDENTITY = {"name": "m", "version": "1.0"}
RANKING = [{"label": "a", "score": 0.75}, {"label": "b", "score": 0.25}]


def read(body: Any, content_type: str = JSON, task: Task | None = None, **headers: str) -> Request:
    own = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return read_request(decode(body, own, LIMITS.body_bytes), task or TASKS["text-classification"], LIMITS, {})


def read_json(value: Any, task: Task | None = None) -> Request:
    return read(json.dumps(value).encode(), task=task)


def write(request: Request, *answers: Any, cut: bool = False) -> Any:
    return json.loads(write_answers(request, [Answered(answer, cut, 7) for answer in answers], IDENTITY))


def test_plain_text_is_one_instance() -> None:
    request = read("grüße".encode(), "text/plain; charset=utf-8")
    assert request.instances == (Instance("grüße"),)
    assert write(request, RANKING) == RANKING


def test_plain_text_that_looks_like_json_is_text() -> None:
    assert read(b'{"inputs": 1}', "text/plain").instances == (Instance('{"inputs": 1}'),)


def test_without_a_content_type_json_is_recognised() -> None:
    assert read(bytearray(b' {"inputs": "a"}'), "").instances == (Instance("a"),)
    assert read(bytearray(b"a [b]"), "").instances == (Instance("a [b]"),)


def test_one_input_has_one_answer() -> None:
    request = read_json({"inputs": {"text": "a", "text_pair": "b"}})
    assert request.instances == (Instance("a", "b"),)
    assert write(request, RANKING) == RANKING
    assert read_json({"inputs": {"text": "a", "text_pair": None}}).instances == (Instance("a"),)
    assert read_json({"text": "a", "text_pair": "b"}).instances == (Instance("a", "b"),)


def test_several_inputs_have_several_answers() -> None:
    request = read_json({"inputs": ["a", {"text": "b"}], "parameters": {"top_k": 1}})
    assert request.instances == (Instance("a"), Instance("b"))
    assert request.parameters["top_k"] == 1
    assert write(request, 1, 2) == [1, 2]


def test_kserve_instances_have_predictions() -> None:
    request = read_json({"instances": ["a"]})
    assert write(request, RANKING) == {"predictions": [RANKING]}
    assert write(request, RANKING, cut=True) == {"predictions": [RANKING], "truncated": [0]}


def test_a_question_needs_a_context() -> None:
    both = {"question": "q", "context": "c"}
    for document in ({"inputs": both}, {"inputs": [both]}, {"instances": [both]}, both):
        assert read_json(document, TASKS["question-answering"]).instances == (Instance("q", "c"),)
    for wrong in ("q", {"question": "q"}, {"question": "q", "text": "c"}):
        with pytest.raises(RequestError, match=r"context|text"):
            read_json({"inputs": wrong}, TASKS["question-answering"])
    for question, context, empty in (("", "c", "question"), ("q", "", "context"), ("", "", "question")):
        with pytest.raises(RequestError, match=f'the field "{empty}" is empty'):
            read_json({"inputs": {"question": question, "context": context}}, TASKS["question-answering"])


def test_the_hub_client_gets_its_list_around_one_classification() -> None:
    for task, answer, written in (
        ("text-classification", RANKING, [RANKING]),
        ("zero-shot-classification", RANKING, RANKING),
        ("sentence-embedding", [0.5, 0.5], [0.5, 0.5]),
    ):
        body = b'{"inputs": "a", "parameters": {}}'
        request = read(body, task=TASKS[task], user_agent="unknown/None; hf_hub/2.4.0; python/3.11")
        assert write(request, answer) == written


@pytest.mark.parametrize("value", [5, True, 2.5, [], ""])
def test_what_torchserve_decoded_and_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="the JSON body must be an object"):
        read(value)


def test_what_torchserve_decoded_is_taken_as_it_is() -> None:
    assert read({"inputs": "a"}).instances == (Instance("a"),)
    assert read("a", "text/plain").instances == (Instance("a"),)


def tensor(*texts: str, name: str = "text", **change: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts), **change}


def test_open_inference_tensors() -> None:
    document = {"id": "7", "inputs": [tensor("a", "b"), tensor("c", "d", name="text_pair")], "parameters": {"top_k": 1}}
    request = read_json(document)
    assert request.instances == (Instance("a", "c"), Instance("b", "d"))
    assert write(request, RANKING, RANKING) == {
        "model_name": "m",
        "model_version": "1.0",
        "id": "7",
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [2, 2], "data": ["a", "b", "a", "b"]},
            {"name": "score", "datatype": "FP32", "shape": [2, 2], "data": [0.75, 0.25, 0.75, 0.25]},
        ],
    }


def test_open_inference_answers_of_every_kind() -> None:
    def names_and_shapes(task: Task, answer: Any) -> dict[str, Any]:
        inputs = [tensor("a", name=task.fields.first)]
        if task.fields.second_required:
            inputs.append(tensor("b", name=str(task.fields.second)))
        document = write(read_json({"inputs": inputs}, task), answer)
        return {output["name"]: output["shape"] for output in document["outputs"]}

    assert names_and_shapes(TASKS["sentence-embedding"], np.zeros(3, np.float32)) == {"embedding": [1, 3]}
    for dtype, datatype in ((np.float32, "FP32"), (np.int8, "INT8"), (np.uint8, "UINT8")):
        body = {"inputs": [tensor("a", name="text")]}
        (output,) = write(read_json(body, TASKS["sentence-embedding"]), np.array([1, 2], dtype))["outputs"]
        assert (output["datatype"], output["shape"], output["data"]) == (datatype, [1, 2], [1, 2])
    heads = {"x": RANKING, "y": RANKING[:1]}
    assert names_and_shapes(TASKS["text-classification"], heads) == {
        **{"x_label": [1, 2], "x_score": [1, 2]},
        **{"y_label": [1, 1], "y_score": [1, 1]},
    }
    assert names_and_shapes(TASKS["token-classification"], []) == {"answer": [1]}
    assert names_and_shapes(TASKS["question-answering"], {"answer": "b", "score": 1.0}) == {"answer": [1]}
    document = write(read_json({"inputs": [tensor("a")]}, TASKS["token-classification"]), [{"word": "Köln"}])
    assert document["outputs"][0]["data"] == ['[{"word":"Köln"}]']


def test_open_inference_gives_the_outputs_that_are_asked_for() -> None:
    request = read_json({"inputs": [tensor("a")], "outputs": [{"name": "score"}]})
    assert [output["name"] for output in write(request, RANKING)["outputs"]] == ["score"]
    with pytest.raises(RequestError, match='there is no output "x"; there are: label, score'):
        write(read_json({"inputs": [tensor("a")], "outputs": [{"name": "x"}]}), RANKING)


def test_open_inference_binary_tensors() -> None:
    texts = ["grüße", "", "b"]
    binary = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
    own = {"name": "x", "shape": [3, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(binary)}}
    head = json.dumps({"inputs": [own], "parameters": {"binary_data_output": True}}).encode()
    task = TASKS["sentence-embedding"]
    request = read(head + binary, "", task, inference_header_content_length=str(len(head)))
    assert request.instances == tuple(Instance(text) for text in texts)
    for spoiled in (binary[:-1], binary + b"\0"):
        with pytest.raises(RequestError):
            read(head + spoiled, "", task, inference_header_content_length=str(len(head)))
    with pytest.raises(RequestError, match="is not a length in the body"):
        read(head, "", task, inference_header_content_length="999999999999999999999999")


def test_parameters_may_stand_beside_the_inputs() -> None:
    assert read_json({"inputs": "a", "top_k": 1}).parameters["top_k"] == 1
    embedding = {"inputs": ["a", "b"], "normalize": True, "prompt_name": "query", "truncation_direction": "left"}
    assert read_json(embedding, TASKS["sentence-embedding"]).parameters == {
        **{"normalize": True, "prompt_name": "query", "truncate": None, "truncation_direction": "left"},
        **{"dimensions": None, "precision": "float32"},
    }
    with pytest.raises(RequestError, match='in "parameters" or as fields of the body, not both'):
        read_json({"inputs": "a", "top_k": 1, "parameters": {"top_k": 2}})
    for wrong in ({"normalize": "yes"}, {"truncation_direction": "up"}, {"prompt_name": 1}):
        with pytest.raises(RequestError, match="must be"):
            read_json({"inputs": "a", **wrong}, TASKS["sentence-embedding"])


def test_sentences_are_compared_by_the_cosine_of_their_embeddings() -> None:
    document = {"inputs": {"source_sentence": "a", "sentences": ["b", "c", "d"]}}
    request = read_json(document, TASKS["sentence-embedding"])
    assert request.instances == (Instance("a"), Instance("b"), Instance("c"), Instance("d"))
    assert write(request, [3.0, 4.0], [6.0, 8.0], [-4.0, 3.0], [0.0, 0.0]) == pytest.approx([1.0, 0.0, 0.0])
    for wrong in ({"source_sentence": "a"}, {"sentences": ["a"]}, {"source_sentence": "a", "sentences": []}):
        with pytest.raises(RequestError, match="sentences"):
            read_json({"inputs": wrong}, TASKS["sentence-embedding"])
    with pytest.raises(RequestError, match='does not take the field "sentences"'):
        read_json(document)


def test_openais_embeddings() -> None:
    task = TASKS["sentence-embedding"]
    request = read_json({"model": "any", "input": ["a", "b"], "user": "u", "normalize": True}, task)
    assert request.instances == (Instance("a"), Instance("b"))
    assert request.parameters["normalize"] is True
    assert write(request, [0.5, 0.25], [1.0, -2.0]) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]},
            {"object": "embedding", "index": 1, "embedding": [1.0, -2.0]},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 14, "total_tokens": 14},
    }
    in_base64 = read_json({"input": "a", "encoding_format": "base64"}, task)
    for dtype, form, values in (
        (np.float32, "<2f", (0.5, 0.25)),
        (np.uint8, "2B", (3, 255)),
        (np.int8, "2b", (-128, 127)),
    ):
        packed = write(in_base64, np.array(values, dtype))["data"][0]["embedding"]
        assert struct.unpack(form, base64.b64decode(packed)) == values


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"input": []}, "at least one instance"),
        ({"input": [1, 2]}, r"input\[0\] must be a text; lists of tokens"),
        ({"input": None}, "input must be a text"),
        ({"input": "a", "encoding_format": "f16"}, "must be float or base64"),
        ({"input": "a", "dimensions": 0}, '"dimensions" must be a whole number from 1'),
        ({"input": "a", "truncate_dim": 3}, 'unknown field "truncate_dim"'),
        ({"input": "a" * 51}, "51 characters; at most 50"),
    ],
)
def test_what_openais_form_has_and_marina_has_not(document: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_json(document, TASKS["sentence-embedding"])


RERANK = TASKS["reranking"]


def test_documents_are_ranked_as_by_text_embeddings_inference() -> None:
    request = read_json({"query": "q", "texts": ["a", "b", "c"], "truncate": True}, RERANK)
    assert request.instances == (Instance("q", "a"), Instance("q", "b"), Instance("q", "c"))
    assert request.parameters["function_to_apply"] == "sigmoid"
    assert write(request, 0.25, 0.75, 0.25) == [
        {"index": 1, "score": 0.75},
        {"index": 0, "score": 0.25},
        {"index": 2, "score": 0.25},
    ]
    shown = read_json({"query": "q", "texts": ["a", "b"], "return_text": True, "raw_scores": True}, RERANK)
    assert shown.parameters["function_to_apply"] == "none"
    assert write(shown, -1.5, 2.5)[0] == {"index": 1, "score": 2.5, "text": "b"}


def test_documents_are_ranked_as_by_cohere() -> None:
    document = {"model": "x", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": True}
    request = read_json(document, RERANK)
    assert request.instances == (Instance("q", "a"), Instance("q", "b"))
    assert write(request, 0.25, 0.75) == {
        "model": "m",
        "results": [{"index": 1, "relevance_score": 0.75, "document": {"text": "b"}}],
        "usage": {"total_tokens": 14},
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"query": "q", "texts": []}, "at least one instance"),
        ({"query": "q", "texts": "a"}, '"texts" must be a list of texts, not a text'),
        ({"query": "q", "documents": [1]}, r"documents\[0\].document must be a text, not a number"),
        ({"query": 1, "documents": ["a"]}, r"documents\[0\].query must be a text, not a number"),
        ({"query": "q", "texts": ["a"], "top_n": 0}, '"top_n" must be a whole number'),
        ({"query": "q", "texts": ["a"], "raw_scores": 1}, '"raw_scores" must be true or false'),
        ({"query": "q", "texts": ["a"], "return_documents": True}, 'unknown field "return_documents"'),
        ({"query": "q", "texts": ["a"] * 5}, "holds 5 instances; at most 4"),
    ],
)
def test_a_request_to_rank_that_is_wrong_is_refused(document: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_json(document, RERANK)


def test_a_score_is_a_tensor() -> None:
    request = read_json({"inputs": [tensor("q", name="query"), tensor("a", name="document")]}, RERANK)
    assert write(request, 0.5)["outputs"] == [{"name": "score", "datatype": "FP32", "shape": [1], "data": [0.5]}]


def test_openais_form_is_for_embeddings() -> None:
    with pytest.raises(RequestError, match='needs "inputs" or "instances"'):
        read_json({"input": "a"})


def test_classes_are_not_counted() -> None:
    """`class_count` of Triton's clients."""
    output = {"name": "score", "parameters": {"classification": 3, "binary_data": True}}
    with pytest.raises(RequestError, match='the output "score" has no classes to count'):
        read_json({"inputs": [tensor("a")], "outputs": [output]})
    read_json({"inputs": [tensor("a")], "outputs": [{**output, "parameters": {"classification": 0}}]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datatype": "FP32"}, 'texts come in a tensor of datatype "BYTES"'),
        ({"shape": [2]}, r'"shape" \[2\] does not fit 1 texts'),
        ({"shape": "x"}, '"shape" must be a list of whole numbers'),
        ({"data": "a"}, '"data" must be a list'),
        ({"data": [1]}, r"inputs\[0\].data\[0\] must be a text, not a number"),
        ({"name": "other"}, 'the inputs must be named text and text_pair, not "other"'),
        ({"parameters": {"binary_data_size": 5}}, "binary_data_size is not the size"),
    ],
)
def test_a_wrong_tensor_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_json({"inputs": [{**tensor("a"), **change}]})


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (None, "NoBody", "no body"),
        (b"\xff", "InvalidEncoding", "not UTF-8 at byte 0"),
        (b"{", "InvalidJson", "not valid JSON at line 1 column 2"),
        (b"", "InvalidJson", "not valid JSON"),
        (b'{"inputs": "a", "top_k": 0}', "InvalidParameter", "whole number from 1"),
        (b"[" * 100_000, "InvalidJson", "nested too deeply|not valid JSON"),
        (b'{"inputs": ' + b"[" * 20 + b"]" * 20 + b"}", "InvalidJson", "nested more than 16 levels deep"),
        (b'{"inputs": ' + b"9" * 5000 + b"}", "InvalidJson", "not valid JSON"),
        (b'{"inputs": NaN}', "InvalidJson", "not valid JSON"),
        (b'{"inputs": "a\nb"}', "InvalidJson", "not valid JSON at line 1 column 14"),
        (b'{"inputs": "' + b"a" * 200_000 + b'"}', "BodyTooLarge", "200014 bytes; at most 200000"),
        (b'"a"', "InvalidBody", "must be an object"),
        (b"[1]", "InvalidBody", "must be an object"),
        (b"null", "InvalidBody", "must be an object"),
        (b"{}", "InvalidBody", 'needs "inputs" or "instances"'),
        (b'{"inputs": "a", "instances": ["a"]}', "InvalidBody", 'needs "inputs" or "instances"'),
        (b'{"inputs": "a", "x\\n": 1}', "InvalidBody", r'unknown field "x\\n"'),
        (b'{"instances": ["a"], "x": 1}', "InvalidBody", 'unknown field "x"'),
        (b'{"inputs": []}', "InvalidBody", "at least one instance"),
        (b'{"instances": "a"}', "InvalidBody", "must be a list"),
        (b'{"inputs": ["a", "a", "a", "a", "a"]}', "TooManyInstances", "5 instances; at most 4"),
        (b'{"inputs": 5}', "InvalidInstance", "not a number"),
        (b'{"inputs": true}', "InvalidInstance", "not a boolean"),
        (b'{"inputs": ["a", null]}', "InvalidInstance", r"inputs\[1\] must be a text"),
        (b'{"inputs": {"txt": "a"}}', "InvalidInstance", 'does not take the field "txt"'),
        (b'{"inputs": {}}', "InvalidInstance", '"text" is missing'),
        (b'{"inputs": {"text": ["a"]}}', "InvalidInstance", "inputs.text must be a text, not a list"),
        (b'{"inputs": {"text": "a", "text_pair": 1}}', "InvalidInstance", "inputs.text_pair must be a text"),
        (b'{"inputs": "' + b"a" * 51 + b'"}', "TooManyCharacters", "51 characters; at most 50"),
        (b'{"inputs": "a\\ud800"}', "InvalidText", "lone surrogate at character 1"),
        (b'{"inputs": "a", "parameters": []}', "InvalidParameter", "must be an object"),
        (b'{"inputs": "a", "parameters": {"top_p": 1}}', "InvalidParameter", 'unknown parameter "top_p"; this model'),
        (b'{"inputs": "a", "parameters": {"top_k": 0}}', "InvalidParameter", "whole number from 1 to 1000000, or null"),
        (b'{"inputs": "a", "parameters": {"top_k": true}}', "InvalidParameter", "whole number"),
        (b'{"inputs": "a", "parameters": {"top_k": 1.5}}', "InvalidParameter", "whole number"),
        (
            b'{"inputs": "a", "parameters": {"function_to_apply": "x"}}',
            "InvalidParameter",
            "softmax or sigmoid or none",
        ),
        (b'{"inputs": "a", "parameters": {"return_all_scores": 1}}', "InvalidParameter", "true or false"),
    ],
)
def test_what_is_wrong_is_said(body: Any, kind: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as raised:
        read(body)
    assert raised.value.kind == kind
    document = json.loads(error_reply(raised.value, "inputs[0]: ").body)
    assert set(document) == {"code", "type", "error", "fix"}
    assert document["code"] == KINDS[kind].status
    assert document["error"].startswith("inputs[0]: ")


def test_pairs_are_refused_where_the_task_takes_none() -> None:
    with pytest.raises(RequestError, match='does not take the field "text_pair"'):
        read_json({"inputs": {"text": "a", "text_pair": "b"}}, TASKS["sentence-embedding"])


NAMES = [
    *(
        "inputs",
        "instances",
        "input",
        "encoding_format",
        "text",
        "text_pair",
        "question",
        "context",
        "parameters",
        "id",
        "outputs",
    ),
    *("name", "shape", "datatype", "data", "top_k", "stride", "aggregation_strategy", "doc_stride", "other"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=60) | st.sampled_from(["BYTES", "none"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=14,
)
bodies = (
    st.binary(max_size=80)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(["inputs", "instances", "input"]), json_values, max_size=2).map(
        lambda value: json.dumps(value).encode()
    )
)
tasks = st.sampled_from(list(TASKS.values()))


@settings(max_examples=1500, deadline=None)
@given(bodies, st.sampled_from([JSON, "", "text/plain", "x/y"]), tasks)
def test_any_body_is_read_or_refused_with_a_reason(body: bytes, content_type: str, task: Task) -> None:
    try:
        request = read(body, content_type, task)
    except RequestError as error:
        assert 400 <= error.status < 500
        assert json.loads(error_reply(error).body)["error"]
    else:
        assert 1 <= len(request.instances) <= LIMITS.instances
        assert all(isinstance(part, str) for instance in request.instances for part in instance.texts)
        assert set(request.parameters) == set(task.parameters)


def test_a_byte_order_mark_is_no_part_of_a_body() -> None:
    mark = b"\xef\xbb\xbf"
    for media_type in ("application/json", "", "text/json"):
        assert decode(mark + b'{"inputs": "x"}', {"content-type": media_type}, 99).value == {"inputs": "x"}
    assert decode(mark + b"x", {"content-type": "text/plain"}, 99).value == "x"
    assert [line.value for line in decode_lines(mark + b'"a"\n"b"\n', {}, 99, 9)] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("media_type", "value"),
    [("text/json", {"inputs": "x"}), ("text/html", {"inputs": "x"}), ("text/plain", '{"inputs": "x"}')],
)
def test_only_plain_text_is_never_json(media_type: str, value: Any) -> None:
    assert decode(b'{"inputs": "x"}', {"content-type": media_type}, 99).value == value
