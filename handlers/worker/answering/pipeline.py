"""The way from instances to answers: tokenize, plan, run, answer.

Hosts, bulk jobs and measurements all use it. An `Inference` carries an instance with its intermediate values: no stage
matches answers with instances by their order. A stage skips an instance whose result is known, and an error in a stage
is the result of the instances that it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handlers.worker.archive.signature import QUERY
from handlers.worker.errors import WHOLE_REQUEST_KINDS, RequestError, request_error
from handlers.worker.members.member import Member
from handlers.worker.request.instances import Answered, Request
from handlers.worker.request.protocols import tokens
from handlers.worker.rows.calls import Runner
from handlers.worker.rows.plan import Planner
from handlers.worker.rows.schedule import Schedule
from handlers.worker.tokens.reader import RowReader
from handlers.worker.tokens.tokenizer import Text, Tokenized
from handlers.worker.values import Call, Instance, Json, Outputs, Row


@dataclass(eq=False, slots=True)
class Inference:
    """An instance with its intermediate values and its result.

    Attributes:
        member: the model that answers.
        instance: the texts.
        parameters: the parameters of the request.
        texts: the texts that the tokenizer reads.
        tokenized: the rows of all of them.
        outputs: the outputs of each row, or its error, by the row's number.
        result: the answer or the error; None until there is one.
    """

    member: Member
    instance: Instance
    parameters: Mapping[str, Json]
    texts: Sequence[Text] = ()
    tokenized: Tokenized | None = None
    outputs: dict[int, Outputs | RequestError] = field(default_factory=dict)
    result: Answered | RequestError | None = None


class Part(NamedTuple):
    """The part of a request that one model answers."""

    member: Member
    request: Request
    inferences: Sequence[Inference]


class Plan(NamedTuple):
    """The distinct rows of inferences, and the calls that compute them.

    Attributes:
        calls: in the order to run them.
        rows: the rows that calls refer to by index.
        uses: for each row, the inferences that need it, each with the row's number among its own.
    """

    calls: list[Call]
    rows: list[Row]
    uses: list[list[tuple[Inference, int]]]

    @property
    def lengths(self) -> list[int]:
        """The tokens of each row."""
        return [len(row.ids) for row in self.rows]

    @property
    def repeats(self) -> int:
        """The number of rows that equal another row, and are not computed again."""
        return sum(map(len, self.uses)) - len(self.rows)


def prepare(member: Member, request: Request) -> Part:
    """The part of a model in a request: its instances, each with the text that the tokenizer reads."""
    inferences = [Inference(member, instance, request.parameters) for instance in request.instances]
    try:
        window = member.window(request.parameters)
        for number, inference in enumerate(inferences):
            inference.texts = member.texts(inference.instance, request.parameters, window)
            # each instance has as many; this comes before more texts are made than may be
            member.check_rows((number + 1) * (len(inference.texts) - _shares_query(inference)))
    except Exception as error:
        refuse(inferences, request_error(error))
    return Part(member, request, inferences)


def _shares_query(inference: Inference) -> bool:
    """Whether the first text is the query of a pair, which the other pairs of a ranking have too."""
    return len(inference.texts) > 1 and inference.texts[0].instance.role == QUERY


def distinct_texts(inferences: Iterable[Inference]) -> Iterator[Text]:
    """The texts of inferences without a result, with a query that several share only once."""
    queries: set[Text] = set()
    for inference in inferences:
        if inference.result is None:
            is_repeated = _shares_query(inference) and inference.texts[0] in queries
            queries.update(inference.texts[:1] if _shares_query(inference) else ())
            yield from inference.texts[is_repeated:]


def refuse(inferences: Iterable[Inference], error: RequestError) -> None:
    """Make an error the result of the inferences that have none."""
    for inference in inferences:
        if inference.result is None:
            inference.result = error


def show_tokens(inferences: Sequence[Inference], request: Request) -> None:
    """Answer the inferences of a request that asks for tokens; they are not computed then."""
    if request.protocol != tokens.NAME:
        return
    room = inferences[0].member.settings.limits.tokens
    for inference in inferences:
        if inference.result is None:
            inference.result = inference.member.tokens(inference.texts[0], request.details[tokens.SPECIAL], room)
            room -= inference.result.tokens if isinstance(inference.result, Answered) else 0


def tokenize(inferences: Iterable[Inference]) -> None:
    """Find the rows of inferences; models with the same tokenizer share the work."""
    by_reader: dict[RowReader, list[Inference]] = {}
    for inference in inferences:
        if inference.result is None:
            by_reader.setdefault(inference.member.reader, []).append(inference)
    for reader, unread in by_reader.items():
        texts = {(inference, number): text for inference in unread for number, text in enumerate(inference.texts)}
        try:
            tokenized = reader.encode(texts, any(inference.member.task.offsets for inference in unread))
        except Exception as error:
            refuse(unread, request_error(error))
            continue
        for inference in unread:
            _join_rows(inference, [tokenized.get((inference, number)) for number in range(len(inference.texts))])


def _join_rows(inference: Inference, parts: Sequence[Tokenized | RequestError | None]) -> None:
    """Give an inference the rows of its texts, or the first error of one."""
    rows = [part for part in parts if isinstance(part, Tokenized)]
    if not parts or len(rows) < len(parts):
        errors = (part for part in parts if isinstance(part, RequestError))
        inference.result = next(errors, _lost("tokens"))
    elif len(rows) == 1:
        (inference.tokenized,) = rows
    else:
        inference.tokenized = Tokenized(
            [row for part in rows for row in part.rows],
            [encoding for part in rows for encoding in part.encodings],
            any(part.truncated for part in rows),
        )


def check_limits(inferences: Sequence[Inference]) -> None:
    """Refuse the inferences of a request whose rows together are more than their model's limits allow."""
    rows: list[Row] = []
    queries: dict[Any, Row] = {}  # of pairs: those that are equal are computed once
    for inference in inferences:
        if inference.result is None and inference.tokenized:
            is_pair = _shares_query(inference)
            rows += inference.tokenized.rows[is_pair:]
            queries |= {row.key: row for row in inference.tokenized.rows[:is_pair]}
    try:
        if inferences:
            inferences[0].member.check_rows(len(rows))
            inferences[0].member.check_tokens(sum(len(row.ids) for row in (*rows, *queries.values())))
    except RequestError as error:
        refusal = request_error(error)
        for inference in inferences:
            inference.result = refusal


def failure_of(part: Part) -> tuple[RequestError, str] | None:
    """The first error of a part, and the place in the body that it is about; None if all instances are answered."""
    for index, inference in enumerate(part.inferences):
        if not isinstance(inference.result, Answered):
            error = inference.result or _lost("answer")
            return error, "" if error.kind in WHOLE_REQUEST_KINDS else part.request.place(index)
    return None


def truncated_of(part: Part) -> list[int]:
    """The numbers in the body of the instances whose texts were cut."""
    results = (inference.result for inference in part.inferences)
    return [
        part.request.number(index)
        for index, result in enumerate(results)
        if isinstance(result, Answered) and result.truncated
    ]


def answer(inferences: Iterable[Inference]) -> None:
    """Turn the outputs of inferences into their results."""
    for inference in inferences:
        if inference.result is not None:
            continue
        if inference.tokenized is None or len(inference.outputs) != len(inference.tokenized.rows):
            inference.result = _lost("outputs")
            continue
        outputs = [inference.outputs[number] for number in range(len(inference.outputs))]
        inference.result = inference.member.answer(
            inference.instance, inference.tokenized, outputs, inference.parameters
        )


class Graphs:
    """The graphs of a worker's models: plans their calls and runs them.

    Args:
        members: the models.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._numbers = {member: number for number, member in enumerate(members)}
        self._schedule = Schedule([Planner(member.times) for member in members])
        self._runner = Runner([member.graphs for member in members], [member.task.condense for member in members])

    def plan(self, inferences: Iterable[Inference]) -> Plan:
        """Plan the calls for all rows of inferences."""
        rows: list[Row] = []
        members: list[int] = []
        uses: dict[Any, list[tuple[Inference, int]]] = {}
        for inference in inferences:
            if inference.result is not None or inference.tokenized is None:
                continue
            member = self._numbers[inference.member]
            for number, row in enumerate(inference.tokenized.rows):
                use = (inference, number)
                key = use if row.tensors else (member, row.key)
                if key not in uses:
                    uses[key] = []
                    rows.append(row)
                    members.append(member)
                uses[key].append(use)
        calls = self._schedule.plan([len(row.ids) for row in rows], members)
        return Plan(calls, rows, list(uses.values()))

    def run(self, plan: Plan) -> None:
        """Run the calls of a plan; each inference gets the outputs of its rows."""
        for index, outputs in self._runner.run(plan.calls, plan.rows).items():
            for inference, number in plan.uses[index]:
                inference.outputs[number] = outputs


def _lost(label: str) -> RequestError:
    return RequestError("Unexpected", f"the worker has no {label} for this instance")
