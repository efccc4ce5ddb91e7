"""The columns of a task's answers, for jobs that write answers into files and tables."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from handlers.worker.values import Json

Take = Callable[[Json], Any]
T = TypeVar("T")


class ValueKind(Enum):
    """The kind of the values of a column."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a 64-bit float"
    VECTOR = "a list of 32-bit floats"
    MATRIX = "a list of lists of 32-bit floats"
    WHOLES = "a list of 32-bit whole numbers"
    SMALL_WHOLES = "a list of 16-bit whole numbers"
    TEXTS = "a list of texts"
    BYTES = "a list of whole numbers from 0 to 255"
    SIGNED_BYTES = "a list of whole numbers from -128 to 127"
    LABELS = "a list of objects with a text, label, and a 64-bit float, score"
    JSON = "any JSON document"


class Column(NamedTuple):
    """A column of answers.

    Attributes:
        name: the column's name.
        kind: the kind of its values.
        value: takes the column's value from an answer.
    """

    name: str
    kind: ValueKind
    value: Take


def same(value: T) -> T:
    """The value itself."""
    return value


def item(name: str) -> Take:
    """Takes a field of an answer."""
    return lambda answer: answer[name]


def items(name: str) -> Take:
    """Takes a field of each entry of an answer."""
    return lambda answer: [entry[name] for entry in answer]
