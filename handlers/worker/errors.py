"""What can go wrong inside a worker.

WorkerError
├── ArtifactError     the artifact is missing, damaged, or made for another setting
├── GoldenError       a graph does not reproduce the golden rows
│   └── NotFiniteError    it computes what is not a number
├── PlacementError    the worker cannot have the cores that it needs
└── RequestError      one request cannot be answered; its kind is one of `KINDS`
"""

from __future__ import annotations

import logging
import traceback
from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of refusal: its HTTP status, what it means, and what the client can do."""

    status: int
    meaning: str
    fix: str


# docs/errors.md is made from this table.
KINDS = {
    "NoBody": Kind(
        400,
        "The request has no body that can be read; a form or parameters of the URL are no body.",
        "Send text/plain, or JSON with 'Content-Type: application/json'.",
    ),
    "InvalidEncoding": Kind(
        400,
        "The body is not UTF-8, or not compressed as its Content-Encoding says.",
        "Encode text as UTF-8; send gzip or deflate with the header that names it.",
    ),
    "UnknownEncoding": Kind(
        415, "The body has a Content-Encoding that is not known.", "Send it as it is, or with gzip or deflate."
    ),
    "InvalidJson": Kind(
        400,
        "The body is not JSON: a syntax error, NaN or Infinity, or nested too deeply.",
        "Write it with a JSON library.",
    ),
    "InvalidBody": Kind(400, "The JSON is of no form that a protocol here has.", "Compare it with docs/requests.md."),
    "InvalidInstance": Kind(
        400, "An instance is not what the task takes.", "The message names the instance and the field."
    ),
    "InvalidText": Kind(
        400, "A text holds a lone surrogate, or not one token.", "Clean the text; \\ud800 to \\udfff come in pairs."
    ),
    "InvalidParameter": Kind(
        400, "A parameter is unknown to the task or its value is not allowed.", "The message says what is allowed."
    ),
    "TextTooLong": Kind(
        400,
        "A text has more characters than the limit, or more tokens than fit while the spec says reject.",
        "Shorten it, or compile the model with a longer shape, or let the spec say truncate or window.",
    ),
    "TooManyWindows": Kind(
        400,
        "A text makes more windows than the limit.",
        "Shorten it, compile the model with a longer shape, or raise serving.max_windows.",
    ),
    "TooManyInstances": Kind(
        413, "The request has more instances than the limit.", "Send several requests, or raise serving.max_instances."
    ),
    "BodyTooLarge": Kind(
        413, "The body has more bytes than the limit.", "Send several requests, or raise serving.max_body_bytes."
    ),
    "TooManyRows": Kind(
        413,
        "The texts of the request make more windows than a request may have instances.",
        "Send several requests, or raise serving.max_instances.",
    ),
    "AnswerTooLarge": Kind(
        413,
        "The answer would have more bytes than TorchServe takes from a worker.",
        "Send fewer texts at once, or ask for less with the parameters.",
    ),
    "NoExplanation": Kind(
        400, "The URL asks for an explanation.", "Ask for a prediction: /predictions/NAME, or :predict and /infer."
    ),
    "Unexpected": Kind(500, "The worker failed at this request.", "See the worker's log, and report it."),
    "NotFinite": Kind(
        500, "The model's output is not a number.", "Report it with the text; compile with a higher precision."
    ),
}


class WorkerError(Exception):
    """A failure with a message fit for the person who runs the server.

    Attributes:
        cause: what is wrong.
        fix: what to do about it; "" where the cause says it.
    """

    def __init__(self, cause: str, fix: str = "", joint: str = "; ") -> None:
        super().__init__(f"{cause}{joint}{fix}" if fix else cause)
        self.cause = cause
        self.fix = fix


class ArtifactError(WorkerError):
    """The artifact cannot be used. The message names the file, the cause and the fix."""


class GoldenError(WorkerError):
    """A graph does not reproduce the golden rows on the cores it runs on."""


class NotFiniteError(GoldenError):
    """A graph computes infinities, or what is not a number."""


class PlacementError(WorkerError):
    """The worker cannot have the cores that it needs. The message says which, and who has them."""


class RequestError(WorkerError):
    """One request cannot be answered; its neighbours in the batch are not touched.

    Attributes:
        kind: a key of `KINDS`.
        status: that kind's HTTP status.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = KINDS[kind].status


def request_error(error: Exception) -> RequestError:
    """The error that one request fails with; a failure of our own must not reach its neighbours."""
    if isinstance(error, RequestError):
        return error
    # where it happened, and nothing of what the client sent
    place = traceback.extract_tb(error.__traceback__)[-1]
    logging.getLogger(__name__).error("%s in %s:%s", type(error).__name__, place.filename, place.lineno)
    return RequestError("Unexpected", f"the worker failed with {type(error).__name__}")
