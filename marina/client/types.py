"""What the methods of a client take and return, and checks that they get it."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from marina.errors import FailedError, MarinaError

Json = Any
FORMATS = {"float32": "f", "float16": "e", "int8": "b"}  # of precisions, for the package struct
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class LabelScore(TypedDict):
    """A label and its score; labels are texts, unless `id2label` in the model's config.json has others."""

    label: str
    score: float


class Entity(TypedDict, total=False):
    """A labelled span of a text.

    If tokens are not joined into entities, each entry is one token and has `entity` and `index` instead of
    `entity_group`.
    """

    entity_group: str
    entity: str
    index: int
    score: float
    word: str
    start: int
    end: int


class Answer(TypedDict):
    """A span of a context that answers a question; an empty span means that there is no answer."""

    answer: str
    score: float
    start: int
    end: int


class RankedDocument(TypedDict):
    """A document's place in the list that was sent, and its score; higher is better."""

    index: int
    score: float


def list_of(texts: Sequence[Any], call: str) -> list[Any]:
    """Texts as a list.

    Raises:
        MarinaError: they are a single text, which is a sequence of characters.
    """
    if isinstance(texts, str):
        raise MarinaError("a single text was given for a list of texts", f"call {call}")
    return list(texts)


def pairs_as_objects(texts: Sequence[Text]) -> list[Json]:
    """Texts and pairs of texts in the format of requests."""
    return [text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts]


def expect(answers: Json, fits: Callable[[Json], bool], method: str, model: str) -> Json:
    """The answers, if they are of the kind that a method returns.

    Raises:
        FailedError: they are not, since the model has another task.
    """
    if isinstance(answers, list) and all(map(fits, answers)):
        return answers
    raise FailedError(f"{model} has another task than {method} is for; call {method_for(answers)}")


def ranked(scores: Sequence[float]) -> list[RankedDocument]:
    """Documents by their scores, best first; equal ones in their order."""
    documents = [RankedDocument(index=number, score=score) for number, score in enumerate(scores)]
    return sorted(documents, key=lambda document: -document["score"])


def method_for(answers: Json) -> str:
    """The method for the task that has such answers."""
    answer = answers[0] if isinstance(answers, list) and answers else answers
    methods = {
        "embed": is_embedding,
        "embed_multi_vector": lambda answer: is_packed_matrix(answer) or (bool(answer) and is_matrix(answer)),
        "embed_sparse": lambda answer: bool(answer) and is_sparse(answer),
        "classify": is_ranking,
        "classify_tokens": is_entities,
        "classify_heads": is_heads,
    }
    return next((f"{name}, or predict" for name, fits in methods.items() if fits(answer)), "predict")


def is_embedding(answer: Json) -> bool:
    """Whether an answer is a list of numbers."""
    return isinstance(answer, list) and bool(answer) and isinstance(answer[0], float | int)


def is_matrix(answer: Json) -> bool:
    """Whether an answer is a list of lists of numbers; there may be none."""
    return isinstance(answer, list) and all(map(is_embedding, answer))


def is_packed_matrix(answer: Json) -> bool:
    """Whether an answer has the bytes of a matrix."""
    return isinstance(answer, dict) and set(answer) == {"shape", "data"}


def unpack_matrix(answer: Json, precision: str) -> list[list[float]]:
    """The rows of a matrix of a precision: float32, float16 or int8."""
    rows, width = answer["shape"]
    values = struct.unpack(f"<{rows * width}{FORMATS[precision]}", base64.b64decode(answer["data"]))
    return [list(values[start : start + width]) for start in range(0, len(values), width)]


def is_sparse(answer: Json) -> bool:
    """Whether an answer is a list of weights with their indices; there may be none."""
    return isinstance(answer, list) and all(isinstance(entry, dict) and "index" in entry for entry in answer)


def is_ranking(answer: Json) -> bool:
    """Whether an answer is a list of labels with scores."""
    return (
        isinstance(answer, list)
        and bool(answer)
        and isinstance(answer[0], dict)
        and set(answer[0]) == {"label", "score"}
    )


def is_entities(answer: Json) -> bool:
    """Whether an answer is a list of entities or tokens; there may be none."""
    return isinstance(answer, list) and all(isinstance(entity, dict) and "word" in entity for entity in answer)


def is_ranked(answer: Json) -> bool:
    """Whether an answer is the place of a document with its score."""
    return isinstance(answer, dict) and {"index", "score"} <= set(answer)


def is_heads(answer: Json) -> bool:
    """Whether an answer is an object with labels and scores for each head."""
    return isinstance(answer, dict) and all(map(is_ranking, answer.values()))
