"""Requests that models of a bundle answer one after the other: one chooses documents, and the last ranks them.

The first model has vectors, or scores pairs. It gets the query and all documents, and the `candidates` documents with
the highest scores go on to the next model. The answer is that of the last one to a request with only these documents,
but for the numbers of documents, which are those of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from handlers.worker import pipeline
from handlers.worker.errors import RequestError, request_error
from handlers.worker.member import Member
from handlers.worker.pipeline import Part
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request
from handlers.worker.request.parameters import as_integer, read_parameters
from handlers.worker.request.protocols import rerank
from handlers.worker.values import Instance, Json

CANDIDATES = "candidates"  # the field of a body
DEFAULT_CANDIDATES = 20
# the prompts of queries and of documents, by the names that sentence-transformers looks for
QUERY_PROMPTS, DOCUMENT_PROMPTS = ("query",), ("document", "passage", "corpus")


@dataclass
class ChainedRequest:
    """A request on its way through a chain.

    Attributes:
        members: the models that are still to come, the present one first.
        request: the request as the last model reads it, with the documents that are left.
        numbers: the numbers of these documents in the body.
        candidates: how many documents go on to the next model.
        parts: what the present model computes.
        tokens: that earlier models have computed.
        error: why the request cannot be answered; None if it can.
        where: the part of the request that the error is about.
    """

    members: Sequence[Member]
    request: Request
    numbers: Sequence[int]
    candidates: int
    parts: list[Part] = field(default_factory=list)
    tokens: int = 0
    error: RequestError | None = None
    where: str = ""

    def readable(self) -> list[Part]:
        return self.parts

    @property
    def is_last(self) -> bool:
        return len(self.members) == 1

    def later_ms(self) -> float:
        """The estimated milliseconds of the models after the present one, at most."""
        longest = sorted(self.request.instances, key=lambda instance: -sum(map(len, instance.texts)))
        texts = 0.0
        for member in self.members[1:]:
            window = member.window(_parameters(member, {}))
            for instance in longest[: self.candidates]:
                texts += member.costs.of_request(member.texts(instance, _parameters(member, {}), window))
        return texts

    def begin(self) -> None:
        """Prepare the parts of the present model."""
        member, instances = self.members[0], self.request.instances
        if self.is_last:
            self.parts = [_part(member, self.request)]
        elif member.task.vectors:
            query, documents = [Instance(instances[0].text)], [Instance(str(pair.text_pair)) for pair in instances]
            self.parts = [_embedding(member, query, QUERY_PROMPTS), _embedding(member, documents, DOCUMENT_PROMPTS)]
        else:
            self.parts = [_part(member, Request(instances, _parameters(member, {}), rerank.NAME, self.request.details))]

    def go_on(self) -> None:
        """Keep the best documents of the present model, and begin with the next one."""
        try:
            self._go_on()
        except Exception as error:
            self.error = request_error(error)

    def _go_on(self) -> None:
        results = [[inference.result for inference in part.inferences] for part in self.parts]
        for part, part_results in zip(self.parts, results, strict=True):
            for number, result in enumerate(part_results):
                if not isinstance(result, Answered):
                    self.where = part.request.place(number)
                    raise result or RequestError("Unexpected", "the worker has no answer for this instance")
                self.tokens += result.tokens
        scores = _scores(results)
        best = sorted(range(len(scores)), key=lambda place: -scores[place])[: self.candidates]
        kept = sorted(best)  # so that equal scores of the next model stay in the order of the request
        self.members, self.numbers = self.members[1:], [self.numbers[place] for place in kept]
        details = {**self.request.details, "numbers": self.numbers, "tokens": self.tokens}
        self.request = Request(
            tuple(self.request.instances[place] for place in kept), self.request.parameters, rerank.NAME, details
        )
        self.begin()


def is_chained(value: Json) -> bool:
    """Whether a body has a query with documents, and names no model."""
    has_documents = isinstance(value, dict) and "query" in value and bool({"texts", "documents"} & set(value))
    return has_documents and not {"model", "models"} & set(value)


def read_chain(body: Body, members: Sequence[Member]) -> ChainedRequest:
    """Read a request for a chain.

    Args:
        body: an object with a query and documents, as the protocol `rerank` has them, and perhaps `CANDIDATES`.
        members: the models in order.

    Raises:
        RequestError: the body is not valid.
    """
    value = dict(body.value)
    candidates = as_integer(value.pop(CANDIDATES, DEFAULT_CANDIDATES))
    if not isinstance(candidates, int) or isinstance(candidates, bool) or candidates < 1:
        raise RequestError("InvalidBody", f'"{CANDIDATES}" must be a whole number from 1 on')
    first, last = members[0], members[-1]
    request = rerank.read(body._replace(value=value), last.task, first.settings.limits, last.defaults)
    chained = ChainedRequest(members, request, range(len(request.instances)), candidates)
    chained.begin()
    return chained


def _part(member: Member, request: Request) -> Part:
    return Part(member, request, pipeline.prepare(member, request))


def _embedding(member: Member, texts: Sequence[Instance], prompts: Sequence[str]) -> Part:
    name = next((name for name in prompts if name in member.artifact.signature.prompts), None)
    prompt = {} if name is None else {"prompt_name": name}
    parameters = _parameters(member, {**prompt, "precision": "float32"})
    return _part(member, Request(tuple(texts), parameters, "chain", {"place": "documents[{}]: "}))


def _parameters(member: Member, requested: Json) -> dict[str, Json]:
    return read_parameters(requested, member.task.parameters, member.defaults)


def _scores(results: Sequence[Sequence[Answered | RequestError | None]]) -> list[float]:
    """The score of each document: the cosine of its vector with the query's, or what the model says of the pair."""
    answers = [[result.answer for result in part if isinstance(result, Answered)] for part in results]
    if len(answers) == 1:
        return answers[0]
    (query,), documents = (np.asarray(part, dtype=np.float64) for part in answers)
    norms = np.linalg.norm(query) * np.linalg.norm(documents, axis=1)
    return list((documents @ query / np.maximum(norms, 1e-12)).tolist())
