"""Bodies with a Content-Encoding."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.values import Instance
from tests.handlers.worker.request.test_protocols import read

BODY = json.dumps({"inputs": "grüße"}).encode()


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the time of day would be in the names of tests


def bare_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", zipped(BODY)),
        ("X-GZIP", zipped(BODY[:5]) + zipped(BODY[5:])),
        ("deflate", zlib.compress(BODY)),
        (" Deflate ", bare_deflate(BODY)),
        ("identity", BODY),
    ],
)
def test_compressed_bodies_are_unpacked(encoding: str, body: bytes) -> None:
    assert read(body, content_encoding=encoding).instances == (Instance("grüße"),)


@pytest.mark.parametrize(
    ("encoding", "body", "kind", "message"),
    [
        ("br", BODY, "UnknownEncoding", "the Content-Encoding is not gzip or deflate"),
        ("gzip, deflate", BODY, "UnknownEncoding", "not gzip or deflate"),
        ("gzip", BODY, "InvalidEncoding", "the body is not gzip, as its Content-Encoding says"),
        ("gzip", zipped(BODY)[:-4], "InvalidEncoding", "not gzip"),
        ("deflate", zlib.compress(BODY)[:-4], "InvalidEncoding", "not deflate"),
        ("gzip", b"", "InvalidEncoding", "not gzip"),
        ("gzip", zipped(b"") * 5000, "InvalidEncoding", "not gzip"),
        ("gzip", "TorchServe could read it", "InvalidEncoding", "not gzip"),
        ("utf-8", "TorchServe could read it", "UnknownEncoding", "not gzip or deflate"),
        ("gzip", zipped(b"a" * 1_000_000), "BodyTooLarge", "more bytes than the 200000 allowed once"),
        ("gzip", zipped(b"a" * 150_000) * 2, "BodyTooLarge", "more bytes than the 200000"),
        ("deflate", zlib.compress(b"a" * 100_000_000), "BodyTooLarge", "more bytes than the 200000"),
    ],
)
def test_bodies_that_cannot_be_unpacked_are_refused(encoding: str, body: Any, kind: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as raised:
        read(body, "text/plain", content_encoding=encoding)
    assert raised.value.kind == kind
    assert KINDS[kind].status == {"UnknownEncoding": 415, "BodyTooLarge": 413}.get(kind, 400)


@given(st.sampled_from(["gzip", "deflate"]), st.binary(max_size=300))
def test_anything_that_is_called_compressed_is_read_or_refused(encoding: str, body: bytes) -> None:
    for sent in (body, zipped(body), zipped(body)[: len(body)], zlib.compress(body)):
        with suppress(RequestError):
            read(sent, content_encoding=encoding)
