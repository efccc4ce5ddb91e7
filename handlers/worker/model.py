"""A served archive: turns the bodies of a batch into answers, independently of TorchServe."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.contents import read_contents
from handlers.worker.errors import OF_REQUESTS, RequestError, request_error
from handlers.worker.loading import load_members
from handlers.worker.member import Member
from handlers.worker.reply import Reply, answer_reply, error_reply, joint_reply, lines_reply
from handlers.worker.request.body import Body, decode, decode_lines, has_lines
from handlers.worker.request.instances import Answered, Request
from handlers.worker.request.protocols import write_answers
from handlers.worker.request.selection import select
from handlers.worker.rows.admission import Admission
from handlers.worker.rows.backlog import Backlog
from handlers.worker.rows.calls import Runner
from handlers.worker.rows.costs import Prepared
from handlers.worker.rows.pace import Pace
from handlers.worker.rows.plan import Planner
from handlers.worker.rows.repeats import distinct
from handlers.worker.rows.schedule import Schedule
from handlers.worker.rows.timing import time_switches
from handlers.worker.rows.tokenizer import Tokenized
from handlers.worker.settings import Settings
from handlers.worker.tasks.base import Task
from handlers.worker.telemetry.description import describe_member, describe_worker
from handlers.worker.telemetry.metrics import FILL, LATENCY, Metrics
from handlers.worker.telemetry.tracing import REQUEST_ID, SERVER_TIMING, StageTimes, server_timing, waited_ms
from handlers.worker.values import Call, Json

NO_MEMBER = "-"  # the label of requests to a bundle that are for none of its models
SWITCHING_BUDGET_S = 1.0  # to measure switches at a worker's start
_log = logging.getLogger(__name__)


class Part(NamedTuple):
    """What a request wants of one model: the number of the model, and the request as that model reads it."""

    member: int
    request: Request


class Asked(NamedTuple):
    """A request: for each model that it is for, by name, its part or why there is none.

    several is true if the answer is by model too.
    """

    parts: Mapping[str, Part | RequestError]
    several: bool

    def readable(self) -> list[Part]:
        return [part for part in self.parts.values() if isinstance(part, Part)]


class Lines(NamedTuple):
    """A body of JSON Lines: the request on each line, or why it cannot be read."""

    requests: list[Asked | RequestError]

    def readable(self) -> list[Part]:
        return [part for one in self.requests if isinstance(one, Asked) for part in one.readable()]


class Model:
    """The models of an archive in memory, checked on their golden rows: one, or the members of a bundle.

    Args:
        folder: the artifact folder of the archive.
        settings: how to serve it.
        tasks: the tasks that the archive's handler has, by name.

    Attributes:
        metrics: the worker's counters.
        failures: why models of a bundle cannot be served, by name.

    Raises:
        ArtifactError: the artifact is damaged, or was made for another task.
        PlacementError: the worker cannot get the cores that it needs.
        GoldenError: a graph or the tokenizer does not reproduce the golden rows.
    """

    def __init__(self, folder: Path, settings: Settings, tasks: Mapping[str, Task]) -> None:
        self.metrics = Metrics()
        contents = read_contents(folder)
        self._members, self.failures, self._placement = load_members(folder, contents, settings, tasks)
        self._contents = contents
        self._settings = settings
        self._unread_label = NO_MEMBER if contents.bundle else contents.name
        self._names = list(contents.folders)
        self._readers = list({id(member.reader): member.reader for member in self._members}.values())
        self._numbers = {member.name: number for number, member in enumerate(self._members)}
        limits = [member.settings.limits for member in self._members]
        self._body_bytes = max(own.body_bytes for own in limits)
        self._lines = max(own.instances for own in limits)
        graphs = [member.graphs for member in self._members]
        self._switch_ms = time_switches(graphs, [member.times for member in self._members], SWITCHING_BUDGET_S)
        self._runner = Runner(graphs)
        self._schedule = Schedule([Planner(member.times) for member in self._members])
        self._pace = Pace()
        self._admission = Admission(
            [member.costs for member in self._members],
            settings.max_batch_ms,
            settings.deadline_ms,
            settings.response_timeout_s * 1000,
            Backlog(settings.batch_size, settings.queue_size, settings.deadline_ms / 1000),
            self._pace,
        )

    def describe(self) -> Json:
        """A description of the served archive; see `handlers.worker.telemetry.description`."""
        worker = describe_worker(self._settings, self._placement.cores)
        if not self._contents.bundle:
            return {**describe_member(self._members[0]), **worker}
        members = {
            member.name: {**describe_member(member), "switch_ms": round(switch_ms, 3)}
            for member, switch_ms in zip(self._members, self._switch_ms)
        }
        failures = {name: str(error) for name, error in self.failures.items()}
        named = {"name": self._contents.name, "engine": self._contents.engine}
        return {**named, "members": members, "failed": failures, **worker}

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
            asked = [self._read(body, headers, received) for body, headers in bodies]
        readable = [[] if isinstance(one, RequestError) else one.readable() for one in asked]
        answers = iter(self._answers(readable, times))
        with times.stage("answer"):
            replies = [self._reply(one, answers) for one in asked]
        self._admission.end()
        self.metrics.count_stages(times.seconds)
        for reply, (_, headers) in zip(replies, bodies):
            if reply.status == 500:
                _log.error("request %s was answered with %s", headers.get(REQUEST_ID, "without id"), reply.status)
        self.metrics.observe(LATENCY, time.perf_counter() - start, times=len(replies))
        self.metrics.observe(FILL, len(replies))
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

    def _read(self, body: Any, headers: Mapping[str, str], received: float) -> Asked | Lines | RequestError:
        waited = waited_ms(headers, received)
        if waited and waited > self._settings.deadline_ms:
            message = f"the request has waited {waited:.0f} ms; the deadline is {self._settings.deadline_ms} ms"
            return RequestError("TooLate", message)
        refusal = self._admission.refusal_unread(len(body) if isinstance(body, (bytes, bytearray, str)) else 0)
        if refusal:
            return refusal
        try:
            if has_lines(headers):
                lines = decode_lines(body, headers, self._body_bytes, self._lines)
                return Lines([one if isinstance(one, RequestError) else self._asked(one) for one in lines])
            return self._asked(decode(body, headers, self._body_bytes))
        except Exception as error:
            return request_error(error)

    def _asked(self, body: Body) -> Asked | RequestError:
        if not self._contents.bundle:
            return Asked({self._contents.name: self._part(self._contents.name, body)}, several=False)
        try:
            selected, several = select(body, self._names)
        except RequestError as error:
            return error
        return Asked({name: self._part(name, own) for name, own in selected.items()}, several)

    def _part(self, name: str, body: Body) -> Part | RequestError:
        if name in self.failures:
            return RequestError("ModelFailed", f"the model {name} did not start; the worker's log says why")
        number = self._numbers[name]
        request = self._members[number].read(body)
        return request if isinstance(request, RequestError) else Part(number, request)

    def _answers(self, asked: Sequence[Sequence[Part]], times: StageTimes) -> list[Answered | RequestError]:
        """Tokenize, plan, call and gather; returns one answer per instance of every part, or its error."""
        parts = [part for own in asked for part in own]
        owners = [(part, instance) for part in parts for instance in part.request.instances]
        with times.stage("tokenize"):
            found = self._tokenize(asked)
            every = [
                (row, part.member)
                for (part, _), answer in zip(owners, found)
                if isinstance(answer, Tokenized)
                for row in answer.rows
            ]
        with times.stage("plan"):
            computed, places = distinct([row for row, _ in every], [member for _, member in every])
            rows = [every[index][0] for index in computed]
            members = [every[index][1] for index in computed]
            lengths = [len(row.ids) for row in rows]
            switches = self._schedule.switches
            calls = self._schedule.plan(lengths, members)
        with times.stage("graph"):
            started = time.perf_counter()
            results = self._runner.run(calls, rows)
            if calls:
                self._pace.observe(self._milliseconds(calls), (time.perf_counter() - started) * 1000)
            outputs = (results[place] for place in places)
        names = [member.name for member in self._members]
        self.metrics.count_calls(calls, lengths, names)
        self.metrics.count_repeats(len(places) - len(rows))
        self.metrics.count_switches(self._schedule.switches - switches)
        with times.stage("answer"):
            return [
                self._members[part.member].answer(
                    instance, answer, [next(outputs) for _ in answer.rows], part.request.parameters
                )
                if isinstance(answer, Tokenized)
                else answer
                for (part, instance), answer in zip(owners, found)
            ]

    def _milliseconds(self, calls: Sequence[Call]) -> float:
        """What calls need at the times of the start, which are of as many calls at once as there are streams."""
        streams = len(self._members[0].graphs.streams)
        return sum(self._members[call.member].times[call.shape] for call in calls) * streams / min(streams, len(calls))

    def _tokenize(self, asked: Sequence[Sequence[Part]]) -> list[Tokenized | RequestError]:
        """The rows of every instance of every part that is computed."""
        groups = [[(part, self._members[part.member].prepare(part.request)) for part in own] for own in asked]
        costs = [sum(self._members[part.member].costs.of_request(one) for part, one in group) for group in groups]
        switching = sum(self._switch_ms[member] for member in {part.member for own in asked for part in own})
        admitted: list[tuple[Part, list[Prepared]]] = []
        for group, refusal in zip(groups, self._admission.refusals(costs, switching)):
            for part, prepared in group:
                admitted.append((part, [refusal] * len(prepared) if refusal else prepared))
        answers = self._encode([(part.member, one) for part, prepared in admitted for one in prepared])
        start = 0
        for part, prepared in admitted:
            own = slice(start, start + len(prepared))
            start = own.stop
            excess = self._members[part.member].excess(answers[own])
            if excess:
                answers[own] = [excess] * len(prepared)
        return answers

    def _encode(self, prepared: Sequence[tuple[int, Prepared]]) -> list[Tokenized | RequestError]:
        """The rows of instances, each given with its model's number; models with equal tokenizers share the work."""
        answers: list[Tokenized | RequestError | None] = [
            one if isinstance(one, RequestError) else None for _, one in prepared
        ]
        for reader in self._readers:
            own = [
                (place, member, one)
                for place, (member, one) in enumerate(prepared)
                if not isinstance(one, RequestError) and self._members[member].reader is reader
            ]
            offsets = any(self._members[member].task.offsets for _, member, _ in own)
            found = reader.encode([one[0] for _, _, one in own], [one[1] for _, _, one in own], offsets)
            for (place, _, _), answer in zip(own, found):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _reply(self, asked: Asked | Lines | RequestError, answers: Iterator[Answered | RequestError]) -> Reply:
        """The reply to a request, for which the next of the answers are."""
        if isinstance(asked, Lines):
            return lines_reply([self._reply(one, answers) for one in asked.requests])
        if isinstance(asked, RequestError):
            self.metrics.add("marina_requests_total", 1, self._unread_label, str(asked.status))
            return error_reply(asked)
        replies = {}
        for name, part in asked.parts.items():
            if isinstance(part, RequestError):
                replies[name] = error_reply(part)
            else:
                own = [next(answers) for _ in part.request.instances]
                replies[name] = self._write(self._members[part.member], part.request, own)
            self.metrics.add("marina_requests_total", 1, name, str(replies[name].status))
        return joint_reply(replies) if asked.several else next(iter(replies.values()))

    def _write(self, member: Member, request: Request, answers: Sequence[Answered | RequestError]) -> Reply:
        answered = []
        for number, answer in enumerate(answers):
            if isinstance(answer, RequestError):
                return error_reply(answer, "" if answer.kind in OF_REQUESTS else request.place(number))
            answered.append(answer)
        cut = ",".join(str(number) for number, answer in enumerate(answered) if answer.cut)
        if cut:
            self.metrics.add("marina_truncated_total", cut.count(",") + 1, member.name)
        try:
            body = write_answers(request, answered, {"name": member.name, "version": self._settings.version})
            return answer_reply(body, cut)
        except Exception as error:
            return error_reply(request_error(error))
