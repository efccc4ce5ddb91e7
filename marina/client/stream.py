"""Answers any number of instances, in requests of a size that suits the server and whatever stands before it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, NamedTuple

from marina.client.answers import Json, error_of, is_error, read_answer
from marina.client.retries import FIRST_PAUSE_S, MAX_PAUSE_S
from marina.client.transport import Sent
from marina.errors import ClientError, FailedError, RefusedError, TimedOutError

FIRST_INSTANCES = 8  # in each of the first requests, from which sizes and times are learnt
MAX_GROWTH = 2.0  # of requests
MARGIN = 0.5  # of the limits of a path: answers differ in length and time
TOO_LARGE = 413


@dataclass(frozen=True)
class Limits:
    """What a path to a server allows for one request.

    Attributes:
        request_bytes: Bytes of the body.
        answer_bytes: Bytes of the answer.
        seconds: Seconds until the answer.

    `Limits.LAMBDA_GATEWAY` is for Amazon API Gateway with AWS Lambda behind it, and `Limits.SAGEMAKER` for an endpoint
    of Amazon SageMaker.
    """

    request_bytes: int
    answer_bytes: int
    seconds: float

    LAMBDA_GATEWAY: ClassVar[Limits]
    SAGEMAKER: ClassVar[Limits]


Limits.LAMBDA_GATEWAY = Limits(6_000_000, 6_000_000, 29)
Limits.SAGEMAKER = Limits(6_291_456, 6_291_456, 60)


class Streamed(NamedTuple):
    """What became of an instance.

    Attributes:
        key: The key that came with it.
        answer: The answer; None if there is an error.
        error: Why there is no answer: this instance was refused.
        truncated: Whether its text was longer than the model reads.
    """

    key: Json
    answer: Json
    error: ClientError | None
    truncated: bool


class RequestLine(NamedTuple):
    """An instance on its way: its key, and the line that is sent."""

    key: Json
    body: bytes


# sends lines to a server; arguments: the body, and the timeout in seconds. ClientError if the whole body is refused
Send = Callable[[bytes, float], Sent]


class BatchSize:
    """How many instances fit into a request: learnt from the requests before.

    Args:
        limits: of the path.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._max_instances = float(FIRST_INSTANCES)
        self._min_refused: float | None = None  # the smallest number of instances that was too many
        self._instance_bytes = self._instance_seconds = 0.0

    def fits(self, count: int, size: int) -> bool:
        """Whether a request may have so many instances, with this number of bytes; a single one always may."""
        return count <= 1 or (count <= self._max_instances and size <= self._limits.request_bytes)

    def learn(self, count: int, answer_bytes: int, seconds: float) -> None:
        """A request of `count` instances was answered with so many bytes after so many seconds."""
        with self._lock:
            self._instance_bytes = max(self._instance_bytes * 0.9, answer_bytes / count)
            self._instance_seconds = max(self._instance_seconds * 0.9, seconds / count)
            max_instances = MARGIN * min(
                self._limits.answer_bytes / max(self._instance_bytes, 1),
                self._limits.seconds / max(self._instance_seconds, 1e-9),
            )
            max_instances = min(max_instances, max(self._max_instances, MAX_GROWTH * count))
            self._max_instances = max(1.0, min(max_instances, (self._min_refused or max_instances + 1) - 1))

    def shrink(self, count: int) -> None:
        """A request of `count` instances was too large."""
        with self._lock:
            self._min_refused = min(self._min_refused or count, count)
            self._max_instances = max(1.0, min(self._max_instances, count / 2))


class Sender:
    """Sends groups of lines, and splits those that are too large.

    Args:
        send: sends a body.
        limits: of the path.
        patience_s: seconds for which a request is sent again while the server is overloaded or out of reach.
    """

    def __init__(self, send: Send, limits: Limits, patience_s: float) -> None:
        self._send = send
        self._limits = limits
        self._patience_s = patience_s
        self.sizes = BatchSize(limits)

    def answer(self, lines: Sequence[RequestLine]) -> list[Streamed]:
        """What became of some instances, in order.

        Raises:
            ClientError: the server cannot be reached, does not know the model, or fails.
        """
        try:
            return self._answer(lines)
        except ClientError as error:
            if len(lines) == 1 and isinstance(error, RefusedError):
                return [Streamed(lines[0].key, None, error, truncated=False)]
            too_large = isinstance(error, TimedOutError) or getattr(error, "status", 0) == TOO_LARGE
            if len(lines) == 1 or not too_large:
                raise
            self.sizes.shrink(len(lines))
            middle = len(lines) // 2
            return self.answer(lines[:middle]) + self.answer(lines[middle:])

    def _answer(self, lines: Sequence[RequestLine]) -> list[Streamed]:
        body = b"".join(line.body for line in lines)
        started_at, pause = time.monotonic(), FIRST_PAUSE_S
        while True:
            sent_at = time.monotonic()
            try:
                sent = self._send(body, self._limits.seconds)
            except ClientError as error:
                wait = max(error.retry_after_s, pause * random.uniform(0.5, 1.5))
                retry = error.transient and not (isinstance(error, TimedOutError) and len(lines) > 1)
                if not retry or time.monotonic() + wait > started_at + self._patience_s:
                    raise
                time.sleep(wait)
                pause = min(2 * pause, MAX_PAUSE_S)
                continue
            answers = sent.body.removesuffix(b"\n").split(b"\n")
            if len(answers) != len(lines):
                raise FailedError(
                    f"{len(lines)} lines were sent, and {len(answers)} came back: is it an archive of Marina?"
                )
            self.sizes.learn(len(lines), len(sent.body), time.monotonic() - sent_at)
            return [
                _read(line.key, answer, number in sent.truncated)
                for number, (line, answer) in enumerate(zip(lines, answers, strict=True))
            ]


def _read(key: Json, line: bytes, truncated: bool) -> Streamed:
    answer = read_answer(line, "the server", "a line")
    if is_error(answer):
        return Streamed(key, None, error_of(answer["code"], answer), truncated)
    return Streamed(key, answer, None, truncated)


def document_of(inputs: Json, model: str, parameters: dict[str, Json]) -> dict[str, Json]:
    """The body of a request; `model` is one of a bundle, or empty."""
    document: dict[str, Json] = {"model": model} if model else {}
    document["inputs"] = inputs
    if parameters:
        document["parameters"] = parameters
    return document


def line_of(key: Json, instance: Json, model: str, parameters: dict[str, Json]) -> RequestLine:
    """The line for an instance; the rest is as for `document_of`."""
    return RequestLine(key, json.dumps(document_of(instance, model, parameters), allow_nan=False).encode() + b"\n")


class Grouping:
    """Puts lines into groups that are as large as fits."""

    def __init__(self, sizes: BatchSize) -> None:
        self._sizes = sizes
        self._size = 0
        self.group: list[RequestLine] = []

    def add(self, line: RequestLine) -> list[RequestLine]:
        """Add a line to the group; if it does not fit, begin another group, and return the full group."""
        full: list[RequestLine] = []
        if not self._sizes.fits(len(self.group) + 1, self._size + len(line.body)):
            full, self.group, self._size = self.group, [], 0
        self.group.append(line)
        self._size += len(line.body)
        return full


def stream(sender: Sender, lines: Iterable[RequestLine], at_once: int) -> Iterator[Streamed]:
    """Send lines, `at_once` requests at the same time, and yield what became of each in order.

    Raises:
        ClientError: as from `Sender.answer`; what came before was yielded.
    """
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="stream")
    in_flight: deque[Future[list[Streamed]]] = deque()
    grouping = Grouping(sender.sizes)
    try:
        for line in lines:
            full_group = grouping.add(line)
            if full_group:
                in_flight.append(pool.submit(sender.answer, full_group))
                if len(in_flight) >= at_once:
                    yield from in_flight.popleft().result()
        if grouping.group:
            in_flight.append(pool.submit(sender.answer, grouping.group))
        while in_flight:
            yield from in_flight.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def stream_async(sender: Sender, lines: AsyncIterable[RequestLine], at_once: int) -> AsyncIterator[Streamed]:
    """The same for a program with an event loop."""
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="stream")
    in_flight: deque[asyncio.Future[list[Streamed]]] = deque()
    grouping = Grouping(sender.sizes)
    try:
        async for line in lines:
            full_group = grouping.add(line)
            if full_group:
                in_flight.append(loop.run_in_executor(pool, sender.answer, full_group))
                if len(in_flight) >= at_once:
                    for streamed in await in_flight.popleft():
                        yield streamed
        if grouping.group:
            in_flight.append(loop.run_in_executor(pool, sender.answer, grouping.group))
        while in_flight:
            for streamed in await in_flight.popleft():
                yield streamed
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
