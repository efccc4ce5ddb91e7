import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.telemetry.tracing import (
    StageTimes,
    client_request_id,
    returned_headers,
    server_timing,
    trace_id,
    waited_ms,
)


@given(st.text(max_size=200))
def test_an_id_is_one_word_that_can_stand_in_a_header(value: str) -> None:
    found = client_request_id({"x-request-id": value})
    assert found in (None, value)
    assert found is None or (re.fullmatch(r"[!-~]+", found) and len(found) <= 128)


def test_ids_as_proxies_make_them_are_kept() -> None:
    for value in ("4aad1ed9-7e76-4c13-8df6-a8327ad66b86", "Root=1-67891233-abcdef012345678912345678", "a/b:1"):
        assert client_request_id({"x-request-id": value}) == value
    assert client_request_id({}) is None


@given(st.text(max_size=60) | st.from_regex(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", fullmatch=True))
def test_a_trace_comes_back_only_as_the_standard_writes_it(value: str) -> None:
    returned = returned_headers({"traceparent": value})
    assert returned == ({"traceparent": value} if trace_id({"traceparent": value}) else {})
    assert all(character in "0123456789abcdef-" for text in returned.values() for character in text)
    assert trace_id({"traceparent": f"00-{'0' * 32}-{'1' * 16}-00"}) is None  # no trace has this id
    assert trace_id({"traceparent": f"00-{'a' * 32}-{'1' * 16}-00"}) == "a" * 32


def test_a_stage_that_fails_is_counted_too() -> None:
    times = StageTimes()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), times.stage("graph"):
            raise ZeroDivisionError
    assert list(times.seconds) == ["graph"]
    assert times.seconds["graph"] > 0


def test_a_request_waited_since_its_proxy_had_it() -> None:
    assert waited_ms({"x-request-start": "t=1700000000.250"}, 1700000000.3) == pytest.approx(50)
    assert waited_ms({"x-request-start": "t=1700000001.000"}, 1700000000.3) == 0
    for value in ("", "yesterday", "t=nan", "t=1", "1700000000.250"):
        assert waited_ms({"x-request-start": value}, 1700000000.3) is None


def test_a_header_of_times() -> None:
    header = server_timing({"read": 0.0001, "graph": 0.0034}, 3, waited=12.345)
    assert header == 'queue;dur=12.35, read;dur=0.10, graph;dur=3.40, batch;desc="3"'
    assert server_timing({}, 1, None) == 'batch;desc="1"'
