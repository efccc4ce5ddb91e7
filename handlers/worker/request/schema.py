"""The schema of a task's requests: the fields of an instance, and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handlers.worker.request.parameters import Parameter


class Fields(NamedTuple):
    """The JSON fields of an instance.

    A bare text is accepted as an instance unless the second field is required. `second` is None if
    an instance is one text. `others` are more fields, which are required. `empty` is true if texts of required fields
    may be empty. `pair_names` are other names of both fields that a pair may have.
    """

    first: str
    second: str | None = None
    second_required: bool = False
    others: tuple[str, ...] = ()
    empty: bool = False
    pair_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All fields."""
        return (self.first, *((self.second,) if self.second else ()), *self.others)


def required_fields(names: Sequence[str]) -> Fields:
    """The fields of a model that defines its fields itself, all of which are required."""
    first, *others = names
    if not others:
        return Fields(first)
    return Fields(first, others[0], second_required=True, others=tuple(others[1:]), empty=True)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The input of a task, and how a response may combine several answers.

    vectors is true if answers are vectors, which can be compared; ranks is true if they are scores that documents are
    sorted by. hub_list is true if huggingface_hub's client takes the labels of one text from a list of length one.
    """

    fields: Fields
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    vectors: bool = False
    ranks: bool = False
    hub_list: bool = False
