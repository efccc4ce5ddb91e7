"""Reads what a server returned: an answer, or the exception that an error corresponds to."""

from __future__ import annotations

import json
from typing import Any

from marina.errors import (
    ClientError,
    FailedError,
    OverloadedError,
    RefusedError,
    TimedOutError,
    UnauthorizedError,
    UnknownModelError,
    UnreachableError,
)

Json = Any
TOKEN_HINT = "marina token, on the server's machine, prints a valid token"
TOO_LARGE_FOR_GRPC = ("larger than max", "exceeds maximum size")  # of a message, in the words of C++ and of Java
PERMANENT_FAILURES = ("Unexpected", "NotFinite", "ModelFailed")


def read_answer(body: bytes, server: str, what: str) -> Json:
    """Parse the JSON of a successful answer; FailedError if it is not JSON.

    Args:
        body: body of the answer. Error messages do not show it, because it may contain users' texts.
        server: address of the server.
        what: kind of answer, for the error message.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FailedError(
            f"{server} sent {what} of {len(body)} bytes that is not JSON: a proxy, another kind of server or a model "
            "with another handler may answer there; check the address and the model"
        ) from None


def http_error(status: int, body: bytes, retry_after: str | None = None) -> ClientError:
    """The exception for an HTTP error status, its body, and its header Retry-After."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
    return error_of(status, answer, seconds)


def is_error(answer: Json) -> bool:
    """Whether an answer without a status of its own, over gRPC or on a line, is Marina's document of an error."""
    return isinstance(answer, dict) and {"code", "type", "error"} <= set(answer)


def error_of(status: int, answer: Json, retry_after_s: float = 0) -> ClientError:
    """The exception for an error status and its JSON document, which is Marina's or TorchServe's."""
    fields = answer if isinstance(answer, dict) else {}
    message = str(fields.get("error") or fields.get("message") or f"HTTP status {status}")
    kind = str(fields.get("type", ""))
    if status == 401 or kind == "InvalidKeyException":
        return UnauthorizedError(f"{message}; {TOKEN_HINT}")
    if kind in ("ModelNotFoundException", "ModelVersionNotFoundException", "UnknownModel"):
        return UnknownModelError(message)
    if status in (429, 503):  # 429 is a proxy's
        return OverloadedError(message, transient=True, retry_after_s=retry_after_s)
    if status == 504:  # of a gateway
        return TimedOutError(message, transient=True)
    if 400 <= status < 500:
        return RefusedError(message, kind, status)
    # the model itself fails on this request, or a worker died with it or before it
    return FailedError(message, transient=kind not in PERMANENT_FAILURES)


def grpc_error(error: Any, address: str) -> ClientError:
    """The exception for a failed gRPC call."""
    import grpc

    # TorchServe puts the name of its exception on a second line
    message, _, exception = str(error.details()).partition("\n")
    code = error.code()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOutError(f"no answer from {address}: {message}", transient=True)
    if code == grpc.StatusCode.UNAVAILABLE:
        return UnreachableError(f"no answer from {address}: {message}", transient=True)
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        if any(words in message for words in TOO_LARGE_FOR_GRPC):
            return RefusedError(message, "BodyTooLarge", 413)
        return OverloadedError(message, transient=True)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return FailedError(f"{address} is not TorchServe's gRPC inference API: {message}; check the address")
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return UnauthorizedError(f"{message}; {TOKEN_HINT}")
    if code == grpc.StatusCode.NOT_FOUND or "NotFoundException" in exception:
        return UnknownModelError(message)
    if "ServiceUnavailableException" in exception:
        return OverloadedError(message, transient=True)
    if code == grpc.StatusCode.INVALID_ARGUMENT:
        return RefusedError(message, "", 400)
    return FailedError(message, transient=True)
