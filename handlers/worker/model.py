"""A served model: turns the bodies of a batch into answers, independently of TorchServe."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handlers.worker.artifact import REMEDY, TOKENIZER_FILE, check_files, read_artifact
from handlers.worker.engines import Setup, engine_module, open_runtime
from handlers.worker.errors import ArtifactError, RequestError, request_error
from handlers.worker.golden import check_graphs, check_tokenizer, read_golden_rows
from handlers.worker.placement import place
from handlers.worker.request.instances import Answered, Request
from handlers.worker.request.protocols import read_request, write_answers, write_error
from handlers.worker.rows.admission import Admission, Prepared
from handlers.worker.rows.backlog import Backlog
from handlers.worker.rows.calls import Runner, load_graphs
from handlers.worker.rows.plan import Planner, longest
from handlers.worker.rows.timing import time_graphs
from handlers.worker.rows.tokenizer import RowTokenizer, Tokenized
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Example, Task, own_parameters
from handlers.worker.telemetry.description import describe
from handlers.worker.telemetry.metrics import FILL, FILL_BUCKETS, LATENCY, LATENCY_BUCKETS, Metrics
from handlers.worker.telemetry.tracing import REQUEST_ID, SERVER_TIMING, StageTimes, server_timing, waited_ms
from handlers.worker.values import Instance, Json, Outputs

# bytes; TorchServe drops a worker whose answer is longer than max_response_size, 6553500 by default
MAX_ANSWER = 6_500_000
TIMING_BUDGET_S = 1.5  # at a worker's start, for all graphs together
TRUNCATED_HEADER = "x-marina-truncated"
RETRY_AFTER = {"retry-after": "1"}  # seconds
_log = logging.getLogger(__name__)


class Reply(NamedTuple):
    """The response to one request: an HTTP status, a JSON body, and headers.

    The header `TRUNCATED_HEADER` contains the numbers of the instances that were truncated. The header `SERVER_TIMING`
    contains the stage times of the batch, if the settings enable it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]


class Model:
    """An artifact in memory, checked on its golden rows.

    Args:
        folder: the artifact.
        settings: how to serve it.
        task: the task that it was made for.

    Attributes:
        metrics: the worker's counters.

    Raises:
        ArtifactError: the artifact is damaged, or was made for another task.
        PlacementError: the worker cannot get the cores that it needs.
        GoldenError: a graph or the tokenizer does not reproduce the golden rows.
    """

    def __init__(self, folder: Path, settings: Settings, task: Task) -> None:
        self.metrics = Metrics()
        artifact = read_artifact(folder)
        if artifact.task != task.name:
            raise ArtifactError(f"{folder} is for the task {artifact.task}, the handler for {task.name}; {REMEDY}")
        check_files(artifact)
        self._placement = place(
            engine_module(artifact.engine).CORES, settings.core_groups, artifact.name, settings.version
        )
        # threads of the tokenizer; if there is only one, handing work over to it costs more than it saves
        os.environ["RAYON_NUM_THREADS"] = str(self._placement.threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if self._placement.threads > 1 else "false"
        golden = read_golden_rows(folder)
        self._artifact = artifact
        self._settings = settings
        self._task = task
        self._max_length = longest(artifact.shapes)
        self._tokenizer = RowTokenizer(folder / TOKENIZER_FILE, artifact.signature.truncation_side, task.offsets)
        check_tokenizer(golden, self._tokenizer, self._max_length)
        self._defaults = own_parameters(task, artifact, settings.parameters)
        setup = Setup(
            cores=len(self._placement.cores),
            threads=self._placement.threads,
            precision=artifact.precision,
            mode=settings.mode,
            compiler=artifact.compiler,
            versions=artifact.versions,
        )
        runtime = open_runtime(artifact.engine, setup)
        streams = load_graphs(runtime, folder, artifact.graphs, artifact.signature)
        self._parity = check_graphs(streams[0], golden, artifact.signature, artifact.tolerance)
        self._times = time_graphs(streams, artifact.signature, TIMING_BUDGET_S)
        self._runner = Runner(streams, artifact.signature)
        self._planner = Planner(self._times)
        backlog = Backlog(settings.batch_size, settings.queue_size)
        self._admission = Admission(self._times, settings.max_batch_ms, settings.deadline_ms, backlog)

    def describe(self) -> Json:
        """A description of the served model; see `handlers.worker.telemetry.description`."""
        measured = (self._placement.cores, self._parity, self._times)
        return describe(self._artifact, self._settings, self._task, self._defaults, *measured)

    def reply(self, bodies: Sequence[tuple[Any, Mapping[str, str]]]) -> list[Reply]:
        """Answer a batch.

        Args:
            bodies: for each request its body and its headers, with lower-case names.

        Returns:
            One reply per request, in order. A request that cannot be answered gets its own 4xx reply, and one that
            is refused because of other requests 503.
        """
        start, received, times = time.perf_counter(), time.time(), StageTimes()
        self._admission.begin(len(bodies))
        with times.stage("read"):
            requests = [self._read(body, headers, received) for body, headers in bodies]
        answers = iter(self._answers([request for request in requests if isinstance(request, Request)], times))
        with times.stage("answer"):
            replies = [
                self._write(request, [next(answers) for _ in request.instances])
                if isinstance(request, Request)
                else error_reply(request)
                for request in requests
            ]
        self._admission.end()
        self.metrics.count_stages(times.seconds)
        for reply, (_, headers) in zip(replies, bodies):
            self.metrics.add("marina_requests_total", 1, str(reply.status))
            if reply.status == 500:
                _log.error("request %s was answered with %s", headers.get(REQUEST_ID, "without id"), reply.status)
        self.metrics.observe(LATENCY, time.perf_counter() - start, LATENCY_BUCKETS, times=len(replies))
        self.metrics.observe(FILL, len(replies), FILL_BUCKETS)
        if not self._settings.server_timing:
            return replies
        return [
            reply._replace(
                headers={
                    **reply.headers,
                    SERVER_TIMING: server_timing(times.seconds, len(replies), waited_ms(headers, received)),
                }
            )
            for reply, (_, headers) in zip(replies, bodies)
        ]

    def _read(self, body: Any, headers: Mapping[str, str], received: float) -> Request | RequestError:
        waited = waited_ms(headers, received)
        if waited and waited > self._settings.deadline_ms:
            message = f"the request has waited {waited:.0f} ms; the deadline is {self._settings.deadline_ms} ms"
            return RequestError("TooLate", message)
        refusal = self._admission.refusal_unread(len(body)) if isinstance(body, (bytes, bytearray, str)) else None
        if refusal:
            return refusal
        try:
            return read_request(body, headers, self._task, self._settings.limits, self._defaults)
        except Exception as error:
            return request_error(error)

    def _answers(self, requests: Sequence[Request], times: StageTimes) -> list[Answered | RequestError]:
        """Tokenize, plan, call and gather; returns one answer per instance, or the error that it fails with."""
        instances = [instance for request in requests for instance in request.instances]
        parameters = [request.parameters for request in requests for _ in request.instances]
        with times.stage("tokenize"):
            answers = self._tokenize(requests)
            rows = [row for answer in answers if isinstance(answer, Tokenized) for row in answer.rows]
            lengths = [len(row.ids) for row in rows]
        with times.stage("plan"):
            calls = self._planner.plan(lengths)
        with times.stage("graph"):
            outputs = iter(self._runner.run(calls, rows))
        self.metrics.count_calls(calls, lengths)
        with times.stage("answer"):
            return [
                self._answer(instance, answer, [next(outputs) for _ in answer.rows], own)
                if isinstance(answer, Tokenized)
                else answer
                for instance, own, answer in zip(instances, parameters, answers)
            ]

    def _tokenize(self, requests: Sequence[Request]) -> list[Tokenized | RequestError]:
        """The rows of every instance of every request that is computed."""
        groups = [self._prepare(request) for request in requests]
        refusals = self._admission.refusals(groups)
        prepared = [refusal or one for group, refusal in zip(groups, refusals) for one in group]
        fine = [one for one in prepared if not isinstance(one, RequestError)]
        found = iter(self._tokenizer.encode([instance for instance, _ in fine], [window for _, window in fine]))
        answers = [one if isinstance(one, RequestError) else next(found) for one in prepared]
        return self._bounded(requests, answers)

    def _prepare(self, request: Request) -> list[Prepared]:
        """The instances of a request as the tokenizer reads them, and how each is laid out in rows."""
        try:
            window = self._task.window(request.parameters, self._max_length, self._settings.long_text)
            window = window._replace(most=self._settings.limits.windows)
            signature = self._artifact.signature
            prepared = [self._task.prepare(one, request.parameters, signature) for one in request.instances]
        except Exception as error:
            return [request_error(error)] * len(request.instances)
        return [(instance, window._replace(prompt_tokens=tokens)) for instance, tokens in prepared]

    def _bounded(
        self, requests: Sequence[Request], answers: list[Tokenized | RequestError]
    ) -> list[Tokenized | RequestError]:
        """Replace requests that make more rows or tokens than allowed by errors, before their rows are computed."""
        limits = self._settings.limits
        start = 0
        for request in requests:
            own = slice(start, start + len(request.instances))
            start = own.stop
            rows = [row for answer in answers[own] if isinstance(answer, Tokenized) for row in answer.rows]
            tokens = sum(len(row.ids) for row in rows)
            if len(rows) > limits.instances:
                message = f"the request makes {len(rows)} rows; at most {limits.instances} are allowed"
                answers[own] = [RequestError("TooManyRows", message)] * len(request.instances)
            elif tokens > limits.tokens:
                message = f"the request has {tokens} tokens; at most {limits.tokens} are allowed"
                answers[own] = [RequestError("TooMuchWork", message)] * len(request.instances)
        return answers

    def _answer(
        self,
        instance: Instance,
        tokenized: Tokenized,
        results: Sequence[Outputs | RequestError],
        parameters: Mapping[str, Json],
    ) -> Answered | RequestError:
        outputs = []
        for result in results:
            if isinstance(result, RequestError):
                return result
            if not all(np.isfinite(output).all() for output in result):
                return RequestError("NotFinite", "the model returned NaN or infinity")
            outputs.append(result)
        try:
            example = Example(instance, tokenized, outputs, parameters)
            answer = self._task.answer(example, self._artifact.signature, self._tokenizer)
            return Answered(answer, tokenized.cut, sum(len(row.ids) for row in tokenized.rows))
        except Exception as error:
            return request_error(error)

    def _write(self, request: Request, answers: Sequence[Answered | RequestError]) -> Reply:
        answered = []
        for number, answer in enumerate(answers):
            if isinstance(answer, RequestError):
                return error_reply(answer, request.place(number))
            answered.append(answer)
        cut = ",".join(str(number) for number, answer in enumerate(answered) if answer.cut)
        identity = {"name": self._artifact.name, "version": self._settings.version}
        if cut:
            self.metrics.add("marina_truncated_total", cut.count(",") + 1)
        try:
            body = write_answers(request, answered, identity)
            if len(body) > MAX_ANSWER:
                raise RequestError(
                    "AnswerTooLarge", f"the answer has {len(body)} bytes; at most {MAX_ANSWER} are allowed"
                )
        except Exception as error:
            return error_reply(request_error(error))
        return Reply(200, body, {TRUNCATED_HEADER: cut} if cut else {})


def error_reply(error: RequestError, where: str = "") -> Reply:
    """The reply to a request that is refused; `where` names the part of the request at fault."""
    return Reply(error.status, write_error(error, where), RETRY_AFTER if error.status == 503 else {})
