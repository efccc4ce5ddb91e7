"""What came back from a server: an answer, or the error that it stands for."""

from __future__ import annotations

import json
from typing import Any

from marina.errors import (
    ClientError,
    FailedError,
    OverloadedError,
    RefusedError,
    UnauthorizedError,
    UnknownModelError,
    UnreachableError,
)

Json = Any


def read_answer(body: bytes, server: str, what: str) -> Json:
    """The JSON of a good answer; FailedError if it is none.

    Args:
        body: of the answer. Messages do not show it: it may hold texts of users.
        server: its address.
        what: the kind of answer, for the message.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FailedError(
            f"{server} sent {what} of {len(body)} bytes that is not JSON: a proxy, another kind of server or a model "
            "with another handler may answer there; check the address and the model"
        ) from None


def http_error(status: int, body: bytes) -> ClientError:
    """The error for an HTTP status that is none of success, and the body that came with it."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    return error_of(status, answer)


def error_of(status: int, answer: Json) -> ClientError:
    """The error for a status and the document that came with it, ours or TorchServe's."""
    fields = answer if isinstance(answer, dict) else {}
    message = str(fields.get("error") or fields.get("message") or f"HTTP status {status}")
    kind = str(fields.get("type", ""))
    if kind == "InvalidKeyException":
        return UnauthorizedError(message)
    if kind in ("ModelNotFoundException", "ModelVersionNotFoundException"):
        return UnknownModelError(message)
    if status == 503:
        return OverloadedError(message)
    if 400 <= status < 500:
        return RefusedError(message, kind, status)
    return FailedError(message)


def grpc_error(error: Any, address: str) -> ClientError:
    """The error for a gRPC call that failed."""
    import grpc

    # TorchServe puts the name of its exception on a second line
    message, _, exception = str(error.details()).partition("\n")
    code = error.code()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return UnreachableError(f"no answer from {address}: {message}")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return FailedError(f"{address} is not TorchServe's gRPC inference API: {message}; check the address")
    if code == grpc.StatusCode.PERMISSION_DENIED:
        return UnauthorizedError(message)
    if "NotFoundException" in exception:
        return UnknownModelError(message)
    if "ServiceUnavailableException" in exception:
        return OverloadedError(message)
    return FailedError(message)
