"""JSON documents that go out."""

from __future__ import annotations

import orjson

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.values import Json


def write_error(error: RequestError, where: str = "") -> bytes:
    """The response body for a refused request; its field `error` marks the refusal, since gRPC carries no status."""
    return dump({"code": error.status, "type": error.kind, "error": f"{where}{error}", "fix": KINDS[error.kind].fix})


def dump(value: Json) -> bytes:
    """Encode as JSON in UTF-8, on one line; numbers in arrays have the digits that their type needs."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
