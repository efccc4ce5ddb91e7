"""A Lambda function behind API Gateway: sends a request's instances to endpoints of SageMaker, one after the other.

    POST {"inputs": [...], "parameters": {...}}, and "model": NAME for a bundle
    200  {"answers": {"ENDPOINT": [...], ...}, "next": null}

It sends mini-batches that fit into SageMaker's limits, and stops before those of Lambda (6 MB) and of API Gateway
(29 s): "next" is then the number of the first instance that was not answered, with which the caller goes on.
"""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BODY_BYTES = 6_291_456  # of a request to an endpoint, of its answer, and of Lambda's own
ANSWER_BYTES = BODY_BYTES - 64_000  # without the JSON around the answers
GATEWAY_S, MARGIN_S = 29.0, 2.0
FIRST_COUNT = 8  # instances of the first mini-batch, when nothing is known of their size and time
MAX_GROWTH = 4  # of the next mini-batch, as a factor

# an answer after the gateway has given up is of no use, and neither is a second request
runtime = boto3.client("sagemaker-runtime", config=Config(read_timeout=GATEWAY_S, retries={"total_max_attempts": 1}))


class Refused(Exception):
    """The request cannot be answered: an HTTP status and a body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class Room(NamedTuple):
    """The remaining seconds until the gateway gives up, and the remaining bytes of the answer."""

    seconds: float
    answer_bytes: float


class Learned:
    """The seconds and the bytes that instances took so far, and how many a model takes at once."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = self.answer_bytes = 0.0
        self.max_count = FIRST_COUNT
        self.refused = False

    def add(self, count: int, seconds: float, answer_bytes: int) -> None:
        """Count a mini-batch that all endpoints have answered."""
        self.count += count
        self.seconds += seconds
        self.answer_bytes += answer_bytes
        if count == self.max_count and not self.refused:
            self.max_count *= MAX_GROWTH

    def too_much(self, count: int) -> None:
        """Remember that a model has refused a mini-batch as too much work at once."""
        self.refused, self.max_count = True, max(1, count // 2)

    def size(self, room: Room) -> int:
        """The number of instances that the next mini-batch may have; 0 if there is no room for one."""
        if not self.count:
            return self.max_count if room.seconds > 0 else 0
        by_time = int(room.seconds / (self.seconds / self.count))
        by_bytes = int(room.answer_bytes / (self.answer_bytes / self.count))
        return max(0, min(by_time, by_bytes, self.max_count))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request of API Gateway (the REST API's format, and the HTTP API's)."""
    until = time.monotonic() + min(GATEWAY_S, context.get_remaining_time_in_millis() / 1000) - MARGIN_S
    endpoints = [name for name in os.environ["ENDPOINTS"].split(",") if name]
    try:
        inputs, parameters = read(event)
        answers = answer(endpoints, inputs, parameters, until)
    except Refused as refused:
        return response(refused.status, refused.body)
    answered_count = len(answers[endpoints[0]])
    next_instance = answered_count if answered_count < len(inputs) else None
    return response(200, json.dumps({"answers": answers, "next": next_instance}).encode())


def answer(endpoints: list[str], inputs: list[Any], parameters: dict[str, Any], until: float) -> dict[str, list[Any]]:
    """The answers of every endpoint to the first instances, as many as there is time and room for."""
    answers: dict[str, list[Any]] = {name: [] for name in endpoints}
    learned, answered_count = Learned(), 0
    while answered_count < len(inputs):
        room = Room(until - time.monotonic(), ANSWER_BYTES - learned.answer_bytes)
        batch = fitting(inputs[answered_count : answered_count + learned.size(room)], parameters)
        if not batch:
            break
        start = time.monotonic()
        try:
            batch_answers = {name: invoke(name, body_of(batch, parameters)) for name in endpoints}
        except Refused as refused:
            if refused.status == 413 and len(batch) > 1:
                learned.too_much(len(batch))
                continue
            if not answered_count:
                raise
            break  # the caller gets what is answered, and this error when it goes on
        size = len(json.dumps(json.dumps(batch_answers)))  # as Lambda sends it: a string of JSON in JSON
        if size > room.answer_bytes:
            if len(batch) == 1 and not answered_count:
                raise Refused(413, error_body(413, "AnswerTooLarge", f"one answer has {size} bytes"))
            if len(batch) == 1:
                break
            learned.too_much(len(batch))
            continue
        for name, endpoint_answers in batch_answers.items():
            answers[name] += endpoint_answers
        answered_count += len(batch)
        learned.add(len(batch), time.monotonic() - start, size)
    return answers


def read(event: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The instances of a request, and its parameters."""
    body = event.get("body") or ""
    try:
        document = json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)
        inputs = document["inputs"]
        parameters = document.get("parameters", {})
        if not isinstance(inputs, list) or not isinstance(parameters, dict):
            raise TypeError("inputs must be a list, and parameters an object")
        if "model" in document:  # of a bundle, which takes it as a parameter too
            parameters = {**parameters, "model": document["model"]}
    except (ValueError, TypeError, KeyError) as error:
        raise Refused(400, error_body(400, "InvalidBody", f'send {{"inputs": [...]}} as JSON: {error}')) from None
    return inputs, parameters


def body_of(batch: list[Any], parameters: dict[str, Any]) -> bytes:
    """The body for an endpoint."""
    return json.dumps({"inputs": batch, **({"parameters": parameters} if parameters else {})}).encode()


def fitting(batch: list[Any], parameters: dict[str, Any]) -> list[Any]:
    """The first instances, as many as SageMaker takes in one body."""
    while len(body_of(batch, parameters)) > BODY_BYTES:
        if len(batch) == 1:
            raise Refused(413, error_body(413, "BodyTooLarge", f"one instance has more than {BODY_BYTES} bytes"))
        batch = batch[: len(batch) // 2]
    return batch


def invoke(endpoint: str, body: bytes) -> list[Any]:
    """The answers of an endpoint; an error of the model is passed on as it is."""
    try:
        reply = runtime.invoke_endpoint(EndpointName=endpoint, ContentType="application/json", Body=body)
    except BotoCoreError as error:  # no answer in time, or no connection
        raise Refused(503, error_body(503, "NoAnswer", f"{endpoint}: {type(error).__name__}")) from None
    except ClientError as error:
        status = error.response.get("OriginalStatusCode", 503)
        reply_of_model = error.response.get("OriginalMessage")
        if reply_of_model:
            raise Refused(int(status), reply_of_model.encode()) from None
        message = f"{endpoint}: {error.response['Error']['Message']}"
        raise Refused(int(status), error_body(int(status), "NoAnswer", message)) from None
    answers = json.loads(reply["Body"].read())
    return list(answers)


def error_body(status: int, kind: str, message: str) -> bytes:
    """An error in the format of Marina's server."""
    return json.dumps({"code": status, "type": kind, "error": message}).encode()


def response(status: int, body: bytes) -> dict[str, Any]:
    """An answer in the format of API Gateway."""
    return {"statusCode": status, "headers": {"Content-Type": "application/json"}, "body": body.decode()}
