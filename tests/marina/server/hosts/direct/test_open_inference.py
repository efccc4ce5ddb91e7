"""Messages of the Open Inference Protocol: what goes in as tensors comes out as a document, and back."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.errors import RequestError
from handlers.worker.request.body import decode
from handlers.worker.request.instances import RequestLimits
from handlers.worker.request.protocols import open_inference
from handlers.worker.request.schema import Fields, Schema
from marina.server.hosts.direct.open_inference import infer_body, infer_response
from tests.marina.server.hosts.direct.hostile import MESSAGES, TEXTS, hostile_messages

SCHEMA = Schema(fields=Fields("text", "text_pair", empty=True))
LIMITS = RequestLimits(instances=8, characters=1000, windows=1, body_bytes=100_000, tokens=10_000)


def request(texts: list[bytes], raw: bool) -> Any:
    made = MESSAGES["ModelInferRequest"](model_name="m", id="7")
    tensor = made.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    if raw:
        made.raw_input_contents.append(b"".join(struct.pack("<I", len(text)) + text for text in texts))
    else:
        tensor.contents.bytes_contents.extend(texts)
    return made


def read(message: Any) -> Any:
    """What a worker reads."""
    headers, body = infer_body(message)
    return open_inference.read(decode(body, headers, 100_000), SCHEMA, LIMITS, {})


@given(st.lists(TEXTS, min_size=1, max_size=LIMITS.instances), st.booleans())
def test_texts_are_read_however_they_come(texts: list[str], raw: bool) -> None:
    read_request = read(request([text.encode() for text in texts], raw))
    assert [instance.text for instance in read_request.instances] == texts
    assert read_request.details["id"] == "7"


def test_parameters_and_outputs() -> None:
    made = request([b"a"], raw=False)
    made.parameters["top_k"].int64_param = 3
    made.parameters["raw"].bool_param = True
    made.outputs.add(name="label").parameters["classification"].int64_param = 2
    headers, body = infer_body(made)
    document = decode(body, headers, 100_000).value
    assert document["parameters"] == {"top_k": 3, "raw": True}
    assert document["outputs"] == [{"name": "label", "parameters": {"classification": 2}}]


@pytest.mark.parametrize(
    ("datatype", "data", "field", "packed"),
    [
        ("FP32", [0.5, -2.0], "fp32_contents", struct.pack("<2f", 0.5, -2.0)),
        ("INT8", [-128, 127], "int_contents", b"\x80\x7f"),
        ("UINT8", [0, 255], "uint_contents", b"\0\xff"),
        ("BYTES", ["a", ""], "bytes_contents", b"\x01\0\0\0a\0\0\0\0"),
    ],
)
def test_answers_of_every_datatype(datatype: str, data: list[Any], field: str, packed: bytes) -> None:
    document = {"outputs": [{"name": "embedding", "datatype": datatype, "shape": [1, 2], "data": data}]}
    (tensor,) = infer_response(document, MESSAGES["ModelInferResponse"](), raw=False).outputs
    contents = list(getattr(tensor.contents, field))
    assert (tensor.datatype, list(tensor.shape)) == (datatype, [1, 2])
    assert contents == ([text.encode() for text in data] if datatype == "BYTES" else data)
    raw = infer_response(document, MESSAGES["ModelInferResponse"](), raw=True)
    assert list(raw.raw_output_contents) == [packed]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made.raw_input_contents.append(b""), "there are 1 inputs, and raw_input_contents for 2"),
        (lambda made: made.raw_input_contents.__setitem__(0, b"\x09\0\0\0a"), "longer than the tensor"),
        (lambda made: made.raw_input_contents.__setitem__(0, b"\x09"), "longer than the tensor"),
        (lambda made: made.raw_input_contents.__setitem__(0, b"\x01\0\0\0\xff"), "is not UTF-8"),
        (lambda made: setattr(made.inputs[0], "datatype", "FP32"), "datatype .BYTES"),
    ],
)
def test_tensors_that_hold_no_texts(change: Any, message: str) -> None:
    made = request([b"a"], raw=True)
    change(made)
    with pytest.raises((ValueError, RequestError), match=message):
        read(made)


@given(st.binary(max_size=60) | hostile_messages("m"))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        message = MESSAGES["ModelInferRequest"].FromString(content)
    except DecodeError:
        return
    with suppress(ValueError, RequestError):
        read(message)


@pytest.mark.parametrize("raw", [False, True])
def test_answers_come_as_the_texts_went(raw: bool) -> None:
    document = {
        "model_name": "m",
        "model_version": "2",
        "parameters": {"truncated": "[0]"},
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [1, 2], "data": ["é", "b"]},
            {"name": "score", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.25]},
        ],
    }
    response = infer_response(document, MESSAGES["ModelInferResponse"](), raw)
    assert (response.model_name, response.model_version, response.id) == ("m", "2", "")
    assert response.parameters["truncated"].string_param == "[0]"
    label, score = response.outputs
    assert (list(label.shape), list(score.shape)) == ([1, 2], [1, 2])
    if raw:
        assert list(response.raw_output_contents) == [
            b"\x02\0\0\0\xc3\xa9\x01\0\0\0b",
            struct.pack("<2f", 0.5, 0.25),
        ]
    else:
        assert list(label.contents.bytes_contents) == [b"\xc3\xa9", b"b"]
        assert list(score.contents.fp32_contents) == [0.5, 0.25]
