"""Replies: what a host sends back for one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from handlers.worker.errors import RequestError
from handlers.worker.request.protocols import dump, write_error

# bytes; TorchServe drops a worker whose answer is longer than max_response_size, 6553500 by default
MAX_ANSWER = 6_500_000
TRUNCATED_HEADER = "x-marina-truncated"
RETRY_AFTER = {"retry-after": "1"}  # seconds


class Reply(NamedTuple):
    """The response to one request: an HTTP status, a JSON body, and headers.

    The header `TRUNCATED_HEADER` contains the numbers of the instances that were truncated. The header `SERVER_TIMING`
    contains the stage times of the batch, if the settings enable it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]


def answer_reply(body: bytes, cut: str) -> Reply:
    """The reply with an answer; `cut` has the numbers of the instances that were truncated.

    Raises:
        RequestError: the body is too large.
    """
    if len(body) > MAX_ANSWER:
        raise RequestError("AnswerTooLarge", f"the answer has {len(body)} bytes; at most {MAX_ANSWER} are allowed")
    return Reply(200, body, {TRUNCATED_HEADER: cut} if cut else {})


def error_reply(error: RequestError, where: str = "") -> Reply:
    """The reply to a request that is refused; `where` names the part of the request at fault."""
    return Reply(error.status, write_error(error, where), RETRY_AFTER if error.status == 503 else {})


def joint_reply(replies: Mapping[str, Reply]) -> Reply:
    """One reply with those of several models by name.

    It is a success if any of them answered, and 503 if one is to be asked again.
    """
    first: dict[int, Reply] = {}
    for reply in replies.values():
        first.setdefault(reply.status, reply)
    if 503 in first:
        return first[503]
    if 200 not in first:
        return next(iter(first.values()))
    cut = [f"{name}={reply.headers[TRUNCATED_HEADER]}" for name, reply in replies.items() if reply.headers]
    try:
        body = dump({name: orjson.Fragment(reply.body) for name, reply in replies.items()})
        return answer_reply(body, ";".join(cut))
    except RequestError as error:
        return error_reply(error)
