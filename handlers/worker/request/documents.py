"""JSON documents that go out."""

from __future__ import annotations

import orjson

from handlers.worker.values import Json


def dump(value: Json) -> bytes:
    """Encode as JSON in UTF-8, on one line; numbers in arrays have the digits that their type needs."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
