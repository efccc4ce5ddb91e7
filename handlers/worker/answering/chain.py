"""Requests that models of a bundle answer one after the other: one chooses documents, and the last ranks them.

The first model has vectors, or scores pairs. It gets the query and all documents, and the `candidates` documents with
the highest scores go on to the next model. The answer is that of the last one to a request with only these documents,
but for the numbers of documents, which are those of the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from handlers.worker.admission.costs import estimated_tokens
from handlers.worker.answering import pipeline
from handlers.worker.answering.pipeline import Part
from handlers.worker.archive.signature import DOCUMENT, QUERY, ROLE_PROMPTS
from handlers.worker.errors import RequestError, request_error
from handlers.worker.members.member import Member
from handlers.worker.request.body import Body
from handlers.worker.request.instances import Answered, Request
from handlers.worker.request.parameters import as_integer, read_parameters
from handlers.worker.request.protocols import rerank
from handlers.worker.values import Instance, Json

CANDIDATES = "candidates"  # the field of a body
DEFAULT_CANDIDATES = 20


@dataclass
class ChainedRequest:
    """A request on its way through a chain.

    Attributes:
        members: the models that are still to come, the present one first.
        request: the request as the last model reads it, with the documents that are left.
        candidates: how many documents go on to the next model.
        later_ms: the estimated milliseconds of all models but the first.
        parts: what the present model computes: all texts, or pairs; or the query, and then the documents.
        truncated: the numbers of the documents that earlier models have cut, or whose query they have, by model.
        error: why no model can begin, or the next one.
    """

    members: Sequence[Member]
    request: Request
    candidates: int
    later_ms: float
    parts: list[Part] = field(default_factory=list)
    truncated: dict[str, list[int]] = field(default_factory=dict)
    error: RequestError | None = None

    def readable(self) -> list[Part]:
        return self.parts

    @property
    def is_last(self) -> bool:
        return len(self.members) == 1

    def failure(self) -> tuple[RequestError, str] | None:
        """The error of the request, and what it is about; None if there is none up to now."""
        if self.error:
            return self.error, ""
        for part in self.parts:
            failure = pipeline.failure_of(part)
            if failure:
                error, where = failure
                return error, f"{part.member.name}: " if error.status == 413 and not where else where
        return None

    def begin(self) -> None:
        """Prepare the parts of the present model."""
        self.parts = _parts(self.members[0], self.request, self.is_last)

    def go_on(self) -> None:
        """Keep the best documents of the present model, which has answered, and begin with the next one."""
        try:
            answered = [
                [inference.result for inference in part.inferences if isinstance(inference.result, Answered)]
                for part in self.parts
            ]
            scores = _scores([[result.answer for result in part] for part in answered])
            best = sorted(range(len(scores)), key=lambda place: -scores[place])[: self.candidates]
            kept = sorted(best)  # so that equal scores of the next model stay in the order of the body
            tokens = sum(result.tokens for part in answered for result in part)
            query_is_cut = len(self.parts) > 1 and pipeline.truncated_of(self.parts[0])
            numbers = [self.request.number(place) for place in range(len(scores))]
            self.truncated[self.members[0].name] = numbers if query_is_cut else pipeline.truncated_of(self.parts[-1])
            self.request = replace(
                self.request,
                instances=tuple(self.request.instances[place] for place in kept),
                details={**self.request.details, "tokens": self.request.details.get("tokens", 0) + tokens},
                numbers=[numbers[place] for place in kept],
            )
            self.members = self.members[1:]
            self.begin()
        except Exception as error:
            self.error = request_error(error)


def is_chained(value: Json, bundle: str) -> bool:
    """Whether a body has a query with documents, and names no model, or only the bundle."""
    if not isinstance(value, dict) or "models" in value or value.get("model", bundle) != bundle:
        return False
    return "query" in value and bool(set(rerank.FIELDS) & set(value))


def read_chain(body: Body, members: Sequence[Member]) -> ChainedRequest:
    """Read a request for a chain.

    Args:
        body: an object with a query and documents, as the protocol `rerank` has them, and perhaps `CANDIDATES`.
        members: the models in order.

    Raises:
        RequestError: the body is not valid, or a later model does not take so many documents.
    """
    value, limits = dict(body.value), [member.settings.limits for member in members]
    default = min(DEFAULT_CANDIDATES, *(limit.instances for limit in limits[1:]))
    candidates = as_integer(value.pop(CANDIDATES, None))
    candidates = default if candidates is None else candidates
    if not isinstance(candidates, int) or isinstance(candidates, bool) or candidates < 1:
        raise RequestError("InvalidBody", f'"{CANDIDATES}" must be a whole number from 1 on')
    limit = limits[0]._replace(characters=min(limit.characters for limit in limits))
    request = rerank.read(body._replace(value=value), members[-1].task, limit, members[-1].defaults)
    chained = ChainedRequest(members, request, candidates, _later_ms(members[1:], request, candidates))
    chained.begin()
    return chained


def _later_ms(members: Sequence[Member], request: Request, candidates: int) -> float:
    """The estimated milliseconds of models that get the longest documents; RequestError if one does not take them."""
    longest = sorted(request.instances, key=lambda pair: -estimated_tokens(pair.texts))[:candidates]
    milliseconds = 0.0
    for member in members:
        parts = _parts(member, replace(request, instances=tuple(longest)), member is members[-1])
        inferences = [inference for part in parts for inference in part.inferences]
        for inference in inferences:
            if isinstance(inference.result, RequestError):
                hint = f"; send fewer {CANDIDATES}" if inference.result.status == 413 else ""
                raise RequestError(inference.result.kind, f"{member.name}: {inference.result}{hint}")
        milliseconds += member.costs.of_request(pipeline.distinct_texts(inferences))
    return milliseconds


def _parts(member: Member, request: Request, is_last: bool) -> list[Part]:
    """What a model computes for a request with pairs, whose parameters are those of the last model."""
    if is_last:
        return [pipeline.prepare(member, request)]
    if not member.task.vectors:
        return [pipeline.prepare(member, replace(request, parameters=_parameters(member, {})))]
    query = Request((Instance(request.instances[0].text),), {}, rerank.NAME, {"place": "query: "})
    documents = replace(request, instances=tuple(Instance(str(pair.text_pair)) for pair in request.instances))
    return [_embeddings(member, query, QUERY), _embeddings(member, documents, DOCUMENT)]


def _embeddings(member: Member, request: Request, role: str) -> Part:
    """The embeddings of texts, with the model's prompt for their role."""
    name = next((name for name in ROLE_PROMPTS[role] if name in member.artifact.signature.prompts), None)
    prompt = {} if name is None else {"prompt_name": name}
    return pipeline.prepare(
        member, replace(request, parameters=_parameters(member, {**prompt, "precision": "float32"}))
    )


def _parameters(member: Member, requested: Json) -> dict[str, Json]:
    return read_parameters(requested, member.task.parameters, member.defaults)


def _scores(answers: Sequence[Sequence[Json]]) -> Sequence[float]:
    """The score of each document: the cosine of its vector with the query's, or what the model says of the pair."""
    if len(answers) == 1:
        return answers[0]
    (query,), documents = (np.asarray(part, dtype=np.float64) for part in answers)
    norms = np.linalg.norm(query) * np.linalg.norm(documents, axis=1)
    return list((documents @ query / np.maximum(norms, 1e-12)).tolist())
