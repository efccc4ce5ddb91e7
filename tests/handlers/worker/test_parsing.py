import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.errors import RequestError
from handlers.worker.parsing import Instance, Limits, Request, parse_request

LIMITS = Limits(instances=4, characters=50)
JSON = "application/json"


def parse(body: Any, content_type: str = JSON, pairs: bool = True) -> Request:
    return parse_request(body, content_type, pairs, LIMITS)


def parse_json(value: Any, pairs: bool = True) -> Request:
    return parse(json.dumps(value).encode(), pairs=pairs)


def test_plain_text_is_one_instance() -> None:
    assert parse("grüße".encode(), "text/plain; charset=utf-8") == Request((Instance("grüße"),), "inputs", True)


def test_plain_text_that_looks_like_json_is_text() -> None:
    assert parse(b'{"inputs": 1}', "text/plain").instances == (Instance('{"inputs": 1}'),)


def test_without_a_content_type_json_is_recognised() -> None:
    assert parse(bytearray(b' {"inputs": "a"}'), "").instances == (Instance("a"),)
    assert parse(bytearray(b"a [b]"), "").instances == (Instance("a [b]"),)


def test_one_input() -> None:
    assert parse_json({"inputs": "a"}) == Request((Instance("a"),), "inputs", True)
    assert parse_json({"inputs": {"text": "a", "text_pair": "b"}}).instances == (Instance("a", "b"),)
    assert parse_json({"inputs": {"text": "a", "text_pair": None}}).instances == (Instance("a"),)


def test_several_inputs() -> None:
    assert parse_json({"inputs": ["a", {"text": "b"}]}) == Request((Instance("a"), Instance("b")), "inputs", False)
    assert parse_json({"instances": ["a"]}) == Request((Instance("a"),), "instances", False)


def test_what_torchserve_decoded_is_taken_as_it_is() -> None:
    assert parse({"inputs": "a"}).instances == (Instance("a"),)
    assert parse("a", "text/plain").instances == (Instance("a"),)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (None, "NoBody", "no body"),
        (b"\xff", "InvalidEncoding", "not UTF-8 at byte 0"),
        (b"{", "InvalidJson", "not valid JSON at line 1 column 2"),
        (b"", "InvalidJson", "not valid JSON"),
        (b"[" * 100_000, "InvalidJson", "JSON"),
        (b'{"inputs": ' + b"9" * 5000 + b"}", "InvalidJson", "not valid JSON"),
        (b'"a"', "InvalidBody", "must be an object"),
        (b"[1]", "InvalidBody", "must be an object"),
        (b"null", "InvalidBody", "must be an object"),
        (b"{}", "InvalidBody", 'needs "inputs" or "instances"'),
        (b'{"inputs": "a", "instances": ["a"]}', "InvalidBody", 'needs "inputs" or "instances"'),
        (b'{"inputs": "a", "x\\n": 1}', "InvalidBody", r'unknown field "x\\n"'),
        (b'{"inputs": []}', "InvalidBody", "at least one instance"),
        (b'{"instances": "a"}', "InvalidBody", "must be a list"),
        (b'{"inputs": ["a", "a", "a", "a", "a"]}', "TooManyInstances", "5 instances; at most 4"),
        (b'{"inputs": NaN}', "InvalidInstance", "not a number"),
        (b'{"inputs": true}', "InvalidInstance", "not a boolean"),
        (b'{"inputs": ["a", null]}', "InvalidInstance", r"inputs\[1\] must be a text"),
        (b'{"inputs": {"txt": "a"}}', "InvalidInstance", 'does not take the field "txt"'),
        (b'{"inputs": {}}', "InvalidInstance", '"text" is missing'),
        (b'{"inputs": {"text": ["a"]}}', "InvalidInstance", "inputs.text must be a text, not a list"),
        (b'{"inputs": {"text": "a", "text_pair": 1}}', "InvalidInstance", "inputs.text_pair must be a text"),
        (b'{"inputs": "' + b"a" * 51 + b'"}', "TextTooLong", "51 characters; at most 50"),
        (b'{"inputs": "a\\ud800"}', "InvalidText", "lone surrogate at character 1"),
    ],
)
def test_what_is_wrong_is_said(body: Any, kind: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as raised:
        parse(body)
    assert raised.value.kind == kind
    assert raised.value.status == (413 if kind == "TooManyInstances" else 400)


def test_pairs_are_refused_where_the_task_takes_none() -> None:
    with pytest.raises(RequestError, match='does not take the field "text_pair"'):
        parse_json({"inputs": {"text": "a", "text_pair": "b"}}, pairs=False)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=60),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["inputs", "instances", "text", "text_pair", "other"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.binary(max_size=80) | json_values.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([JSON, "", "text/plain", "x/y"]),
)
def test_any_body_is_read_or_refused_with_a_reason(body: bytes, content_type: str) -> None:
    try:
        request = parse(body, content_type)
    except RequestError as error:
        assert 400 <= error.status < 500
        assert str(error).isprintable() or "\\" in str(error)
    else:
        assert 1 <= len(request.instances) <= LIMITS.instances
        assert all(isinstance(part, str) for instance in request.instances for part in instance if part is not None)
