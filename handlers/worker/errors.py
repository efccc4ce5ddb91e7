"""The errors of a worker.

WorkerError
├── ArtifactError     the artifact is missing, damaged, or made for another setting
├── GoldenError       a graph does not reproduce the golden rows
│   └── NotFiniteError    it returns NaN or infinity
├── PlacementError    the worker cannot get the cores that it needs
└── RequestError      one request cannot be answered; its kind is one of `KINDS`
"""

from __future__ import annotations

import logging
import traceback
from typing import NamedTuple

# `marina serve` looks for this marker in the log to report why a worker, or a model of its bundle, did not start
FAILURE_MARK = "marina: cannot serve:"


class ErrorKind(NamedTuple):
    """One kind of refusal: its HTTP status, what it means, and what the client can do."""

    status: int
    meaning: str
    fix: str


# docs/reference/errors.md is generated from this table.
KINDS = {
    "NoBody": ErrorKind(
        400,
        "The request has no readable body. Forms and URL parameters do not count.",
        "Send text/plain, or JSON with 'Content-Type: application/json'.",
    ),
    "InvalidEncoding": ErrorKind(
        400,
        "The body is not UTF-8, or does not match its Content-Encoding.",
        "Encode text as UTF-8. For gzip or deflate, set the header Content-Encoding.",
    ),
    "UnknownEncoding": ErrorKind(
        415, "The Content-Encoding is not supported.", "Send the body uncompressed, or with gzip or deflate."
    ),
    "InvalidJson": ErrorKind(
        400,
        "The body is not valid JSON: a syntax error, NaN or Infinity, or too many levels.",
        "Create it with a JSON library.",
    ),
    "InvalidBody": ErrorKind(
        400, "The JSON does not match any supported protocol.", "Compare it with docs/reference/requests.md."
    ),
    "InvalidInstance": ErrorKind(
        400,
        "An instance does not fit the task.",
        "Send what the model's task takes: docs/reference/requests.md shows it.",
    ),
    "InvalidText": ErrorKind(
        400,
        "A text contains a lone surrogate.",
        "Clean the text: \\ud800 to \\udfff only come in pairs.",
    ),
    "NoTokens": ErrorKind(
        400,
        "The tokenizer finds no token in a text: it is empty, or has only characters that the tokenizer drops.",
        "Leave the text out of the request, or send one with words.",
    ),
    "InvalidParameter": ErrorKind(
        400, "The task has no such parameter, or its value is not allowed.", "Correct the parameter, or leave it out."
    ),
    "TooManyCharacters": ErrorKind(
        400, "A text has more characters than allowed.", "Shorten it, or raise serving.max_characters."
    ),
    "TextTooLong": ErrorKind(
        400,
        "A text has more tokens than the longest shape, and long_text is reject; or what is not cut leaves it no room.",
        "Shorten it or its hypothesis, compile the model with a longer shape, or set long_text to truncate or window.",
    ),
    "TooManyWindows": ErrorKind(
        400,
        "A text makes more windows than allowed.",
        "Shorten it, compile the model with a longer shape, or raise serving.max_windows.",
    ),
    "TooManyInstances": ErrorKind(
        413, "The request has more instances than allowed.", "Send several requests, or raise serving.max_instances."
    ),
    "BodyTooLarge": ErrorKind(
        413, "The body has more bytes than allowed.", "Send several requests, or raise serving.max_body_bytes."
    ),
    "TooManyRows": ErrorKind(
        413,
        "The texts of the request together make more rows than allowed: windows, or texts with candidate labels.",
        "Send several requests, or raise serving.max_instances.",
    ),
    "TooMuchWork": ErrorKind(
        413,
        "The texts of the request together have more tokens than allowed, or need more time than the deadline leaves.",
        "Send several requests, or raise serving.max_tokens or serving.deadline_ms.",
    ),
    "Overloaded": ErrorKind(
        503,
        "The batch of the request holds more work than serving.max_batch_ms allows, or its queue may be too old.",
        "Send the request again after the seconds in Retry-After. If this happens often, add workers.",
    ),
    "TooLate": ErrorKind(
        503,
        "The request waited longer than serving.deadline_ms; a proxy set X-Request-Start.",
        "Send the request again after the seconds in Retry-After. If this happens often, add workers.",
    ),
    "AnswerTooLarge": ErrorKind(
        413,
        "The answer would be larger than TorchServe accepts from a worker.",
        "Send fewer texts per request, or limit the answer with parameters.",
    ),
    "NoModel": ErrorKind(
        400,
        "The archive is a bundle, and the request names none of its models, and is not for its chain.",
        'Name one with "model", or several with "models"; or, for its chain, send a query with documents.',
    ),
    "ModelFailed": ErrorKind(
        500,
        "A model of the bundle, or another version of a model, did not start; the others are served.",
        "Read the worker's log, compile the model again, pack the bundle, and upgrade it.",
    ),
    "NoExplanation": ErrorKind(
        400, "The URL is for explanations, which are not supported.", "Use /predictions/NAME, :predict or /infer."
    ),
    "Unexpected": ErrorKind(
        500, "The worker failed on this request.", "Read the worker's log, and report the error that it shows."
    ),
    "NotFinite": ErrorKind(
        500,
        "The model returned NaN or infinity.",
        "Compile the model with a higher precision. If that does not help, report it.",
    ),
}


# kinds of errors that concern a whole request; their messages name no instance
WHOLE_REQUEST_KINDS = frozenset({"TooManyRows", "TooMuchWork", "Overloaded", "TooLate"})


class WorkerError(Exception):
    """A failure whose message is meant for the person who runs the server.

    Attributes:
        cause: the problem.
        fix: how to solve it; "" if the cause already says so.
    """

    def __init__(self, cause: str, fix: str = "", separator: str = "; ") -> None:
        super().__init__(f"{cause}{separator}{fix}" if fix else cause)
        self.cause = cause
        self.fix = fix


class ArtifactError(WorkerError):
    """The artifact cannot be used. The message names the file, the cause and the fix."""


class GoldenError(WorkerError):
    """A graph does not reproduce the golden rows on the cores it runs on."""


class NotFiniteError(GoldenError):
    """A graph returns NaN or infinity."""


class PlacementError(WorkerError):
    """The worker cannot get the cores that it needs. The message says which cores, and who holds them."""


class RequestError(WorkerError):
    """One request cannot be answered; the other requests of the batch are not affected.

    Attributes:
        kind: a key of `KINDS`.
        status: that kind's HTTP status.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = KINDS[kind].status


def request_error(error: Exception) -> RequestError:
    """The error that a request fails with; an unexpected error is wrapped, so that it cannot affect other requests."""
    if isinstance(error, RequestError):
        # they hold the frames with the texts and their tokens, until the garbage collector comes
        error.__context__ = None
        return error.with_traceback(None)
    # log where it failed, but nothing that the client sent
    frame = traceback.extract_tb(error.__traceback__)[-1]
    logging.getLogger(__name__).error("%s in %s:%s", type(error).__name__, frame.filename, frame.lineno)
    return RequestError("Unexpected", f"the worker failed with {type(error).__name__}")
