"""Turns the body of a request into instances. The one place that knows how requests are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from handlers.worker.errors import RequestError

Json = Any
Body = Any  # bytes, str, or decoded JSON

EXAMPLE = '{"inputs": "some text"}'


class Instance(NamedTuple):
    """One thing to answer: a text, or a pair of texts."""

    text: str
    text_pair: str | None = None


class Limits(NamedTuple):
    """How much one request may ask for."""

    instances: int
    characters: int  # in each text


@dataclass(frozen=True)
class Request:
    """The instances of one request, and the field they came in, which shapes the answer.

    field is "inputs" or "instances"; single says that "inputs" held one instance and not a list.
    """

    instances: tuple[Instance, ...]
    field: str
    single: bool


def parse_request(body: Body, content_type: str, pairs: bool, limits: Limits) -> Request:
    """Read one request.

    Args:
        body: bytes or text as they were sent, JSON that TorchServe has decoded already, or None
            where there was no body.
        content_type: as sent; empty where the protocol has none (gRPC).
        pairs: whether the task takes `text_pair`.
        limits: what one request may ask for.

    Raises:
        RequestError: with the reason and, where it is one of several, the instance at fault.
    """
    value = _decode(body, content_type)
    if isinstance(value, str):
        return Request((_instance(value, "text", pairs, limits),), "inputs", single=True)
    if not isinstance(value, dict):
        raise RequestError("InvalidBody", f"the JSON body must be an object such as {EXAMPLE}")
    fields = [field for field in ("inputs", "instances") if field in value]
    if len(fields) != 1:
        raise RequestError("InvalidBody", f'the JSON body needs "inputs" or "instances": {EXAMPLE}')
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise RequestError("InvalidBody", f"unknown field {_quote(unknown[0])} in the JSON body")
    field = fields[0]
    items = value[field]
    if field == "inputs" and not isinstance(items, list):
        return Request((_instance(items, field, pairs, limits),), field, single=True)
    if not isinstance(items, list) or not items:
        raise RequestError("InvalidBody", f'"{field}" must be a list with at least one instance')
    if len(items) > limits.instances:
        message = f'"{field}" holds {len(items)} instances; at most {limits.instances} are allowed'
        raise RequestError("TooManyInstances", message, status=413)
    instances = (_instance(item, f"{field}[{i}]", pairs, limits) for i, item in enumerate(items))
    return Request(tuple(instances), field, single=False)


def _decode(body: Body, content_type: str) -> Json:
    """A str for plain text, a decoded value for JSON.

    TorchServe hands over decoded JSON and text, or plain bytes (`decode_input_request=false`,
    gRPC, unknown content types, and JSON that it could not decode).
    """
    if body is None:
        raise RequestError(
            "NoBody", "no body that can be read; send text/plain, or JSON with 'Content-Type: application/json'"
        )
    media_type = content_type.partition(";")[0].strip().lower()
    is_json = media_type == "application/json"
    if not isinstance(body, (bytes, bytearray, str)):
        return body
    if isinstance(body, str):
        if is_json:
            # decoded by TorchServe already: a JSON document that is a bare string
            raise RequestError("InvalidBody", f"the JSON body must be an object such as {EXAMPLE}")
        text = body
    else:
        try:
            text = bytes(body).decode("utf-8")
        except UnicodeDecodeError as error:
            raise RequestError("InvalidEncoding", f"the body is not UTF-8 at byte {error.start}") from None
    if is_json or (not media_type.startswith("text/") and text.lstrip()[:1] in ("{", "[")):
        return _decode_json(text)
    return text


def _decode_json(text: str) -> Json:
    try:
        value = json.loads(text)
    except RecursionError:
        raise RequestError("InvalidJson", "the JSON body is nested too deeply") from None
    except ValueError as error:
        where = f" at line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise RequestError("InvalidJson", f"the body is not valid JSON{where}") from None
    if isinstance(value, str):
        raise RequestError("InvalidBody", f"the JSON body must be an object such as {EXAMPLE}")
    return value


def _instance(value: Json, where: str, pairs: bool, limits: Limits) -> Instance:
    if isinstance(value, str):
        return Instance(_text(value, where, limits))
    if not isinstance(value, dict):
        raise RequestError("InvalidInstance", f'{where} must be a text or {{"text": ...}}, not {_type(value)}')
    allowed = {"text", "text_pair"} if pairs else {"text"}
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise RequestError("InvalidInstance", f"{where}: this model does not take the field {_quote(unknown[0])}")
    if "text" not in value:
        raise RequestError("InvalidInstance", f'{where}: the field "text" is missing')
    text = _text(value["text"], f"{where}.text", limits)
    if value.get("text_pair") is None:
        return Instance(text)
    return Instance(text, _text(value["text_pair"], f"{where}.text_pair", limits))


def _text(value: Json, where: str, limits: Limits) -> str:
    if not isinstance(value, str):
        raise RequestError("InvalidInstance", f"{where} must be a text, not {_type(value)}")
    if len(value) > limits.characters:
        message = f"{where} has {len(value)} characters; at most {limits.characters} are allowed"
        raise RequestError("TextTooLong", message)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError("InvalidText", f"{where} has a lone surrogate at character {error.start}") from None
    return value


def _type(value: Json) -> str:
    names = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null", str: "a text"}
    return names.get(type(value), "a number")


def _quote(name: object) -> str:
    """A name from the request, cut and escaped so that it cannot flood or break a message."""
    return json.dumps(str(name)[:40])
