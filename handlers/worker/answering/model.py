"""A served archive: turns the bodies of a batch into answers, independently of TorchServe."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handlers.worker.admission.backlog import Backlog
from handlers.worker.admission.bounds import Admission
from handlers.worker.admission.pace import Pace
from handlers.worker.answering import pipeline
from handlers.worker.answering.chain import ChainedRequest
from handlers.worker.answering.pipeline import Graphs, Part, Plan
from handlers.worker.answering.reply import Reply, answer_reply, error_reply, joint_reply, lines_reply
from handlers.worker.answering.routing import Lines, ReadRequest, Router, chains_of
from handlers.worker.archive.contents import read_contents
from handlers.worker.errors import RequestError, request_error
from handlers.worker.members.loading import load_members
from handlers.worker.request.instances import Answered
from handlers.worker.request.protocols import tokens, write_answers
from handlers.worker.rows.timing import time_switches
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Task
from handlers.worker.telemetry.description import describe_member, describe_worker
from handlers.worker.telemetry.metrics import FILL, LATENCY, Metrics
from handlers.worker.telemetry.spans import open_spans
from handlers.worker.telemetry.tracing import REQUEST_ID, SERVER_TIMING, StageTimes, server_timing, trace_id, waited_ms
from handlers.worker.values import Call, Json

NO_MEMBER = "-"  # the label of requests to a bundle that are for none of its models
UNCOUNTED = "the metrics of a batch could not be counted"
SWITCHING_BUDGET_S = 1.0  # to measure switches at a worker's start
_log = logging.getLogger(__name__)


class Model:
    """The models of an archive in memory, checked on their golden rows: one, or the members of a bundle.

    Args:
        folder: the artifact folder of the archive.
        settings: how to serve it.
        tasks: the tasks that the archive's handler has, by name.
        knows_wait: whether the host says of each request when it came; else the worker estimates how long they wait.

    Attributes:
        metrics: the worker's counters.
        members: the models that are served.
        failures: the errors of models of a bundle that cannot be served, by name.

    Raises:
        ArtifactError: the artifact is damaged, or was made for another task.
        PlacementError: the worker cannot get the cores that it needs.
        GoldenError: a graph or the tokenizer does not reproduce the golden rows.
    """

    def __init__(self, folder: Path, settings: Settings, tasks: Mapping[str, Task], knows_wait: bool = False) -> None:
        self.metrics = Metrics()
        contents = read_contents(folder)
        self.members, self.failures, self._placement = load_members(folder, contents, settings, tasks)
        self._contents = contents
        self._settings = settings
        self._spans = open_spans(contents.name, settings.version)
        self._unread_label = NO_MEMBER if contents.bundle else contents.name
        self._router = Router(contents, self.members, self.failures)
        graphs, times = [member.graphs for member in self.members], [member.times for member in self.members]
        self._switch_ms = {
            member.name: switch_ms
            for member, switch_ms in zip(self.members, time_switches(graphs, times, SWITCHING_BUDGET_S), strict=True)
        }
        self._graphs = Graphs(self.members)
        self._pace = Pace()
        self._admission = Admission(
            [member.costs for member in self.members],
            settings.max_batch_ms,
            settings.deadline_ms,
            settings.response_timeout_s * 1000,
            Backlog(settings.batch_size, settings.queue_size, math.inf if knows_wait else settings.deadline_ms / 1000),
            self._pace,
        )

    def describe(self) -> Json:
        """A description of the served archive; see `handlers.worker.telemetry.description`."""
        worker = describe_worker(self._settings, self._placement.cores)
        if not self._contents.bundle:
            return {**describe_member(self.members[0]), **worker}
        members = {
            member.name: {**describe_member(member), "switch_ms": round(self._switch_ms[member.name], 3)}
            for member in self.members
        }
        failures = {name: str(error) for name, error in self.failures.items()}
        contents = self._contents
        identity = {"name": contents.name, "engine": contents.engine, "chain": list(contents.chain)}
        return {**identity, "members": members, "failed": failures, **worker}

    def reply(self, bodies: Sequence[tuple[Any, Mapping[str, str]]]) -> list[Reply]:
        """Answer a batch.

        Args:
            bodies: for each request its body and its headers, with lower-case names.

        Returns:
            One reply per request, in order. A request that cannot be answered gets its own 4xx reply, and one that
            is refused because of other requests 503.
        """
        start, received, times = time.perf_counter(), time.time(), StageTimes()
        with self._admission.batch(len(bodies)):
            with times.stage("read"):
                requests = [self._read(body, headers, received) for body, headers in bodies]
            self._compute(requests, times)
            with times.stage("answer"):
                replies = [self._reply_or_error(request) for request in requests]
        with _logged(UNCOUNTED):
            for name, seconds in times.seconds.items():
                self.metrics.add("marina_stage_seconds_total", seconds, name)
            self.metrics.observe(LATENCY, time.perf_counter() - start, times=len(replies))
            self.metrics.observe(FILL, len(replies))
        return [
            self._traced(reply, headers, received, times, len(bodies))
            for reply, (_, headers) in zip(replies, bodies, strict=True)
        ]

    def _read(self, body: Any, headers: Mapping[str, str], received: float) -> ReadRequest | RequestError:
        try:
            waited = waited_ms(headers, received)
            if waited and waited > self._settings.deadline_ms:
                message = f"the request has waited {waited:.0f} ms; the deadline is {self._settings.deadline_ms} ms"
                return RequestError("TooLate", message)
            refusal = self._admission.refusal_unread(len(body) if isinstance(body, (bytes, bytearray, str)) else 0)
            if refusal:
                return refusal
            return self._router.read(body, headers)
        except Exception as error:
            return request_error(error)

    def _compute(self, requests: Sequence[ReadRequest | RequestError], times: StageTimes) -> None:
        """Find the result of every inference in requests; those of chains go from model to model."""
        read = [request for request in requests if not isinstance(request, RequestError)]
        parts = [part for request in read for part in request.readable()]
        try:
            with times.stage("tokenize"):
                self._admit(read)
        except Exception as error:
            pipeline.refuse((inference for part in parts for inference in part.inferences), request_error(error))
        self._compute_parts(parts, times)
        chained = [chain for request in read for chain in chains_of(request)]
        while chained := [chain for chain in chained if not chain.is_last and not chain.failure()]:
            with times.stage("tokenize"):
                for chain in chained:
                    chain.go_on()
            self._compute_parts([part for chain in chained for part in chain.parts], times)

    def _compute_parts(self, parts: Sequence[Part], times: StageTimes) -> None:
        inferences = [inference for part in parts for inference in part.inferences]
        try:
            with times.stage("tokenize"):
                for part in parts:
                    pipeline.show_tokens(part.inferences, part.request)
                pipeline.tokenize(inferences)
                for part in parts:
                    pipeline.check_limits(part.inferences)
            with times.stage("plan"):
                plan = self._graphs.plan(inferences)
            with times.stage("graph"):
                self._run(plan)
            with times.stage("answer"):
                pipeline.answer(inferences)
        except Exception as error:
            pipeline.refuse(inferences, request_error(error))

    def _admit(self, requests: Sequence[ReadRequest]) -> None:
        """Refuse the requests that are not computed in this batch."""
        parts = [request.readable() for request in requests]
        costs = [
            sum(part.member.costs.of_request(pipeline.distinct_texts(part.inferences)) for part in request_parts)
            + sum(chain.later_ms for chain in chains_of(request))
            for request, request_parts in zip(requests, parts, strict=True)
        ]
        names = {part.member.name for request_parts in parts for part in request_parts}
        names |= {member.name for request in requests for chain in chains_of(request) for member in chain.members}
        switching = sum(self._switch_ms[name] for name in names)
        refusals = self._admission.refusals(costs, switching)
        for request, request_parts, refusal in zip(requests, parts, refusals, strict=True):
            if refusal:
                for part in request_parts:
                    pipeline.refuse(part.inferences, refusal)
                for chain in chains_of(request):
                    chain.error = refusal

    def _run(self, plan: Plan) -> None:
        start = time.perf_counter()
        self._graphs.run(plan)
        if plan.calls:
            self._pace.observe(self._milliseconds(plan.calls), (time.perf_counter() - start) * 1000)
        with _logged(UNCOUNTED):
            self.metrics.count_calls(plan.calls, plan.lengths, [member.name for member in self.members])
            self.metrics.add("marina_repeated_rows_total", plan.repeats)

    def _milliseconds(self, calls: Sequence[Call]) -> float:
        """The milliseconds of calls at the times of the start, which were measured with all streams busy at once."""
        streams = len(self.members[0].graphs.streams)
        return sum(self.members[call.member].times[call.shape] for call in calls) * streams / min(streams, len(calls))

    def _reply_or_error(self, request: ReadRequest | RequestError) -> Reply:
        try:
            return self._reply(request)
        except Exception as error:
            return error_reply(request_error(error))

    def _reply(self, request: ReadRequest | RequestError) -> Reply:
        if isinstance(request, Lines):
            return lines_reply([self._reply_or_error(line) for line in request.requests])
        if isinstance(request, RequestError):
            self._count_request(self._unread_label, request.status)
            return error_reply(request)
        if isinstance(request, ChainedRequest):
            failure = request.failure()
            reply = error_reply(*failure) if failure else self._write(request.parts[0], request.truncated)
            self._count_request(request.members[-1].name, reply.status)
            return reply
        replies = {}
        for name, part in request.parts.items():
            replies[name] = error_reply(part) if isinstance(part, RequestError) else self._write(part)
            self._count_request(name, replies[name].status)
        return joint_reply(replies) if request.by_model else next(iter(replies.values()))

    def _count_request(self, label: str, status: int) -> None:
        with _logged(UNCOUNTED):
            self.metrics.add("marina_requests_total", 1, label, str(status))

    def _write(self, part: Part, truncated_before: Mapping[str, Sequence[int]] = {}) -> Reply:
        """The reply with a part's answers; earlier models of a chain have truncated the texts with these numbers."""
        failure = pipeline.failure_of(part)
        if failure:
            return error_reply(*failure)
        answered = [inference.result for inference in part.inferences if isinstance(inference.result, Answered)]
        truncated_by_model = {**truncated_before, part.member.name: pipeline.truncated_of(part)}
        if part.request.protocol != tokens.NAME:  # which cuts nothing, and says what a prediction would
            with _logged(UNCOUNTED):
                for name, numbers in truncated_by_model.items():
                    if numbers:
                        self.metrics.add("marina_truncated_total", len(numbers), name)
        truncated = ",".join(map(str, sorted(set().union(*truncated_by_model.values()))))
        identity = {"name": part.member.name, "version": self._settings.version}
        try:
            return answer_reply(write_answers(part.request, answered, identity), truncated)
        except Exception as error:
            return error_reply(request_error(error))

    def _traced(
        self, reply: Reply, headers: Mapping[str, str], received: float, times: StageTimes, requests: int
    ) -> Reply:
        """A reply with the header `SERVER_TIMING`, if the settings enable it; a failure is logged by its id.

        Its spans are written too, where there is a collector.
        """
        if reply.status == 500:
            trace = trace_id(headers)
            request_id = headers.get(REQUEST_ID, "without id")
            _log.error(
                "request %s%s was answered with %s", request_id, f" of trace {trace}" if trace else "", reply.status
            )
        waited = waited_ms(headers, received)
        if self._spans:
            with _logged("the spans of a request could not be written"):
                self._spans.write(headers, reply.status, received, waited, times.seconds, requests)
        if not self._settings.server_timing:
            return reply
        timing = server_timing(times.seconds, requests, waited)
        return reply._replace(headers={**reply.headers, SERVER_TIMING: timing})


@contextmanager
def _logged(message: str) -> Iterator[None]:
    """An error is logged, and costs no answer."""
    try:
        yield
    except Exception:
        _log.exception(message)
