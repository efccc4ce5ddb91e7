"""Requests: their instances, the limits that they must respect, and the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handlers.worker.errors import RequestError
from handlers.worker.request.schema import Fields, required_fields
from handlers.worker.request.text import check_text, quote, type_name
from handlers.worker.values import Instance, Json


class RequestLimits(NamedTuple):
    """The limits on one request."""

    instances: int
    characters: int  # in each text
    windows: int  # per text
    body_bytes: int
    tokens: int  # of all rows, without padding


class Answered(NamedTuple):
    """The answer for one instance, whether its text was truncated, and how many tokens were computed for it."""

    answer: Json
    truncated: bool
    tokens: int


@dataclass(frozen=True)
class Request:
    """The instances of one request, and how to write its answer.

    protocol is the name of the request's protocol; details are the protocol's notes for the response. numbers are those
    of the instances in the body, if some of them are left out here.
    """

    instances: tuple[Instance, ...]
    parameters: Mapping[str, Json]
    protocol: str
    details: Mapping[str, Json] = field(default_factory=dict)
    numbers: Sequence[int] | None = None

    def number(self, index: int) -> int:
        """The number in the body of the instance at an index."""
        return index if self.numbers is None else self.numbers[index]

    def place(self, index: int) -> str:
        """The prefix of messages about the instance at an index; empty if the request has only one instance."""
        return str(self.details.get("place", "")).format(self.number(index))


def read_instance(value: Json, where: str, fields: Fields, limits: RequestLimits) -> Instance:
    """Read an instance from its JSON: a text, or an object with the task's fields.

    Raises:
        RequestError: a field is missing, unknown, or not a text; the message names the field.
    """
    if isinstance(value, str) and not fields.second_required:
        return Instance(check_text(value, where, limits.characters))
    if not isinstance(value, dict):
        expected = "an object with " + " and ".join(f'"{name}"' for name in fields.names)
        if not fields.second_required:
            expected = f'a text or {{"{fields.first}": ...}}'
        raise RequestError("InvalidInstance", f"{where} must be {expected}, not {type_name(value)}")
    if fields.pair_names and set(value) & set(fields.pair_names):
        fields = required_fields(fields.pair_names)
    unknown = sorted(set(value) - set(fields.names))
    if unknown:
        raise RequestError("InvalidInstance", f"{where}: this model does not take the field {quote(unknown[0])}")
    if fields.first not in value:
        raise RequestError("InvalidInstance", f'{where}: the field "{fields.first}" is missing')
    text = check_text(value[fields.first], f"{where}.{fields.first}", limits.characters)
    second = value.get(fields.second) if fields.second else None
    if second is None and not fields.second_required:
        return Instance(text)
    if second is None:
        raise RequestError("InvalidInstance", f'{where}: the field "{fields.second}" is missing')
    pair = check_text(second, f"{where}.{fields.second}", limits.characters)
    if fields.second_required and not fields.empty and not (text and pair):  # as in transformers
        name = fields.second if text else fields.first
        raise RequestError("InvalidInstance", f'{where}: the field "{name}" is empty')
    for name in fields.others:
        if name not in value:
            raise RequestError("InvalidInstance", f'{where}: the field "{name}" is missing')
    others = tuple(check_text(value[name], f"{where}.{name}", limits.characters) for name in fields.others)
    return Instance(text, pair, others)


def check_count(count: int, name: str, limits: RequestLimits) -> None:
    """Refuse zero instances, and more than the limit."""
    if not count:
        raise RequestError("InvalidBody", f'"{name}" must hold at least one instance')
    if count > limits.instances:
        message = f'"{name}" holds {count} instances; at most {limits.instances} are allowed'
        raise RequestError("TooManyInstances", message)
