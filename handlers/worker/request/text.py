"""Text from clients: checks it, and quotes it in messages."""

from __future__ import annotations

import json
from typing import Any

from handlers.worker.errors import RequestError

_TYPES = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null", str: "a text"}


def check_text(value: Any, where: str, max_characters: int) -> str:
    """A text of at most `max_characters` characters that can be written as UTF-8; RequestError otherwise."""
    if not isinstance(value, str):
        raise RequestError("InvalidInstance", f"{where} must be a text, not {type_name(value)}")
    if len(value) > max_characters:
        raise RequestError(
            "TooManyCharacters", f"{where} has {len(value)} characters; at most {max_characters} are allowed"
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError("InvalidText", f"{where} has a lone surrogate at character {error.start}") from None
    return value


def type_name(value: Any) -> str:
    """The JSON type of a value in words."""
    return _TYPES.get(type(value), "a number")


def quote(name: object) -> str:
    """A name from a request, cut and escaped so that it can neither flood nor corrupt a message."""
    return json.dumps(str(name)[:40])
