"""Decodes a body into text, JSON or lines of JSON, within limits that JSON libraries do not enforce."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from handlers.worker.errors import RequestError, request_error
from handlers.worker.request.compression import decompress
from handlers.worker.values import Json

MAX_DEPTH = 16  # maximum nesting; the deepest body that a supported protocol needs has 5 levels
# Triton's clients append binary tensors to the JSON; this header gives the offset where they begin.
HEADER_LENGTH = "inference-header-content-length"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
JSON_LINES = ("application/jsonlines", "application/x-jsonlines", "application/jsonl", "application/x-ndjson")


class Body(NamedTuple):
    """A decoded body: text or JSON, the bytes that follow the JSON, and the request's headers.

    size is the number of bytes without compression; 0 if TorchServe has decoded it.
    """

    value: Json
    tail: bytes
    headers: Mapping[str, str]
    size: int = 0


def decode(body: Any, headers: Mapping[str, str], max_bytes: int) -> Body:
    """Decompress and decode a body into text or JSON, and split off bytes after the JSON if the headers announce them.

    TorchServe passes either decoded JSON and text, or plain bytes (`decode_input_request=false`,
    gRPC, unknown content types, and JSON that it could not decode). `max_bytes` is the maximum number of bytes.

    Raises:
        RequestError: the body is empty, too large, not UTF-8, not JSON, or does not match its headers.
    """
    media_type = _media_type(headers)
    if body is None or media_type in FORMS or (body in (b"", "") and not media_type):
        raise RequestError(
            "NoBody", "no body that can be read; send text/plain, or JSON with 'Content-Type: application/json'"
        )
    encoding = headers.get("content-encoding", "")
    is_json = media_type == "application/json"
    if isinstance(body, (bytes, bytearray)):
        check_size(len(body), max_bytes)
        body = decompress(bytes(body), encoding, max_bytes)
        size = len(body)
        length = _header_length(headers, len(body))
        if length is not None:
            return Body(_decode_json(_utf8(body[:length])), bytes(body[length:]), headers, size)
        text = _utf8(body)
        if is_json or (media_type != "text/plain" and text.lstrip()[:1] in ("{", "[")):
            return Body(_decode_json(text), b"", headers, size)
        return Body(text, b"", headers, size)
    # TorchServe has already decoded the body, so it cannot have the encoding that the header names
    decompress(b"", encoding, 0)
    if isinstance(body, str) and is_json:
        # TorchServe decoded a JSON document that is a bare string
        return Body(None, b"", headers)
    _check_depth(body)
    return Body(body, b"", headers)


def has_lines(headers: Mapping[str, str]) -> bool:
    """Whether a body is JSON Lines: one request per line, as SageMaker's Batch Transform sends them."""
    return _media_type(headers) in JSON_LINES


def decode_lines(body: Any, headers: Mapping[str, str], max_bytes: int, max_lines: int) -> list[Body | RequestError]:
    """Decompress a body of JSON Lines, and decode each line into JSON, or a text if it is a JSON string.

    Args:
        body: the body.
        headers: the request's headers.
        max_bytes: the maximum number of bytes.
        max_lines: the maximum number of lines.

    Returns:
        For each line its body, or the error if it cannot be read.

    Raises:
        RequestError: the body is empty, too large, or not UTF-8, or has too many lines.
    """
    if not isinstance(body, (bytes, bytearray)):
        raise RequestError("NoBody", "no body that can be read; send a JSON document on each line")
    check_size(len(body), max_bytes)
    lines = _utf8(decompress(bytes(body), headers.get("content-encoding", ""), max_bytes)).split("\n")
    if not lines[-1].strip():
        lines.pop()
    if not lines:
        raise RequestError("NoBody", "the body has no lines; send a JSON document on each line")
    if len(lines) > max_lines:
        raise RequestError("TooManyInstances", f"the body has {len(lines)} lines; at most {max_lines} are allowed")
    return [_decode_line(line) for line in lines]


def _decode_line(line: str) -> Body | RequestError:
    try:
        return Body(_parse_json(line), b"", {}, len(line.encode()))
    except RequestError as error:
        return request_error(error)


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_size(size: int, max_bytes: int) -> None:
    """Refuse a body of too many bytes."""
    if size > max_bytes:
        raise RequestError("BodyTooLarge", f"the body has {size} bytes; at most {max_bytes} are allowed")


def _header_length(headers: Mapping[str, str], size: int) -> int | None:
    value = headers.get(HEADER_LENGTH)
    if value is None:
        return None
    if not (value.isdecimal() and value.isascii() and len(value) <= 12 and int(value) <= size):
        raise RequestError("InvalidBody", "the header Inference-Header-Content-Length is not a length in the body")
    return int(value)


def _utf8(body: bytes | bytearray) -> str:
    try:
        return body.decode("utf-8-sig")  # without the mark that some editors write at the start of a file
    except UnicodeDecodeError as error:
        raise RequestError("InvalidEncoding", f"the body is not UTF-8 at byte {error.start}") from None


def _decode_json(text: str) -> Any:
    value = _parse_json(text)
    # a bare JSON string is not accepted as text: clients send text as text/plain
    return None if isinstance(value, str) else value


def _parse_json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError("InvalidJson", "the JSON body is nested too deeply") from None
    except ValueError as error:
        where = f" at line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise RequestError("InvalidJson", f"the body is not valid JSON{where}") from None
    _check_depth(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise RequestError("InvalidJson", f"the JSON body is nested more than {MAX_DEPTH} levels deep")
