"""Replies: the responses that a host sends to requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from handlers.worker.errors import KINDS, RequestError
from handlers.worker.request.documents import dump

# bytes; TorchServe drops a worker whose answer is longer than max_response_size, 6553500 by default
MAX_ANSWER = 6_500_000
TRUNCATED_HEADER = "x-marina-truncated"
JSON, JSON_LINES = "application/json", "application/jsonlines"
RETRY_AFTER = {"retry-after": "1"}  # seconds


class Reply(NamedTuple):
    """The response to one request: an HTTP status, a body of JSON, headers, and the body's media type.

    The header `TRUNCATED_HEADER` contains the numbers of the instances that were truncated. The header `SERVER_TIMING`
    contains the stage times of the batch, if the settings enable it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    media_type: str = JSON


def answer_reply(body: bytes, truncated: str) -> Reply:
    """The reply with an answer, or with an error if the body is too large.

    `truncated` has the numbers of the instances that were truncated.
    """
    if len(body) > MAX_ANSWER:
        message = f"the answer has {len(body)} bytes; at most {MAX_ANSWER} are allowed"
        return error_reply(RequestError("AnswerTooLarge", message))
    return Reply(200, body, {TRUNCATED_HEADER: truncated} if truncated else {})


def error_reply(error: RequestError, where: str = "") -> Reply:
    """The reply to a request that is refused; `where` names the part of the request at fault.

    The field `error` of its body marks the refusal, since gRPC carries no status.
    """
    body = {"code": error.status, "type": error.kind, "error": f"{where}{error}", "fix": KINDS[error.kind].fix}
    return Reply(error.status, dump(body), RETRY_AFTER if error.status == 503 else {})


def joint_reply(replies: Mapping[str, Reply]) -> Reply:
    """One reply with the replies of several models by name.

    It is a success if any model answered, and 503 if any reply is 503, so that the client sends the request again.
    """
    first_by_status: dict[int, Reply] = {}
    for reply in replies.values():
        first_by_status.setdefault(reply.status, reply)
    if 503 in first_by_status:
        return first_by_status[503]
    if 200 not in first_by_status:
        return next(iter(first_by_status.values()))
    truncated = [f"{name}={reply.headers[TRUNCATED_HEADER]}" for name, reply in replies.items() if reply.headers]
    body = dump({name: orjson.Fragment(reply.body) for name, reply in replies.items()})
    return answer_reply(body, ";".join(truncated))


def lines_reply(replies: Sequence[Reply]) -> Reply:
    """One reply with the replies to the lines of a body: an answer or an error on each line, in order.

    It is 503 if any line's reply is 503, so that the client sends the lines again, and 413 if no line is answered
    because the lines together are too much work. Otherwise it is a success, even if lines have errors.
    """
    statuses = [reply.status for reply in replies]
    if 503 in statuses:
        return replies[statuses.index(503)]
    too_much = [reply for reply in replies if reply.status == 413]
    if 200 not in statuses and len(too_much) > 1 and len({reply.body for reply in too_much}) == 1:
        return too_much[0]
    truncated = ",".join(str(number) for number, reply in enumerate(replies) if TRUNCATED_HEADER in reply.headers)
    reply = answer_reply(b"".join(reply.body + b"\n" for reply in replies), truncated)
    return reply._replace(media_type=JSON_LINES) if reply.status == 200 else reply
