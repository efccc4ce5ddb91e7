"""Parameters of requests: their allowed values, and how they are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from handlers.worker.errors import RequestError
from handlers.worker.request.text import quote
from handlers.worker.values import Json

LARGEST = sys.float_info.max


class Parameter(NamedTuple):
    """One parameter: its default, its check of values, and the allowed values in words and as JSON Schema."""

    default: Json
    allows: Callable[[Json], bool]
    expected: str
    schema: Mapping[str, Json]


def choice(default: str | None, *others: str) -> Parameter:
    """One of a few words; also null if that is the default."""
    values = (default, *others)
    expected = " or ".join("null" if item is None else item for item in values)
    schema = {"enum": list(values)}
    return Parameter(default, lambda value: isinstance(value, str | None) and value in values, expected, schema)


def word(default: str | None) -> Parameter:
    """Any word, or null."""
    schema = {"type": ["string", "null"]}
    return Parameter(default, lambda value: isinstance(value, str | None), "a word, or null", schema)


def integer(default: int | None, minimum: int, maximum: int = 1_000_000, null: bool = False) -> Parameter:
    """A whole number within bounds; also null if `null` is set."""

    def allows(value: Json) -> bool:
        if value is None:
            return null
        return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum

    schema = {"type": ["integer", "null"] if null else "integer", "minimum": minimum, "maximum": maximum}
    return Parameter(
        default, allows, f"a whole number from {minimum} to {maximum}" + (", or null" if null else ""), schema
    )


def flag(default: bool | None) -> Parameter:
    """True or false; also null if that is the default."""
    return Parameter(
        default,
        lambda value: isinstance(value, bool) or (value is None and default is None),
        "true or false" if default is not None else "true, false or null",
        {"type": "boolean" if default is not None else ["boolean", "null"]},
    )


def words(default: list[str]) -> Parameter:
    """A list of words."""
    return Parameter(
        default,
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
        "a list of words",
        {"type": "array", "items": {"type": "string"}},
    )


def numbers_by_name(example: str) -> Parameter:
    """An object of finite numbers; by default an empty one.

    YAML reads some words without quotes as something else, such as yes and no.
    """

    def allows(value: Json) -> bool:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            return False
        numbers = value.values()
        return all(
            isinstance(number, int | float) and not isinstance(number, bool) and -LARGEST <= number <= LARGEST
            for number in numbers
        )

    schema = {"type": "object", "additionalProperties": {"type": "number"}}
    return Parameter({}, allows, f"an object of numbers by names in quotes, such as {example}", schema)


def as_integer(value: Json) -> Json:
    """A number without fraction as int: JSON has one kind of number, in which 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_parameters(
    requested: Json, parameters: Mapping[str, Parameter], defaults: Mapping[str, Json]
) -> dict[str, Json]:
    """The value of every parameter of a task.

    Args:
        requested: the request's "parameters"; None if it has none.
        parameters: the task's parameters.
        defaults: the model's own defaults, if they differ from the task's.

    Raises:
        RequestError: a parameter is unknown or its value is not allowed.
    """
    if requested is None:
        requested = {}
    if not isinstance(requested, dict):
        raise RequestError("InvalidParameter", '"parameters" must be an object')
    values = {name: parameter.default for name, parameter in parameters.items()} | dict(defaults)
    for name, item in requested.items():
        if name not in parameters:
            allowed = ", ".join(parameters) or "none"
            raise RequestError("InvalidParameter", f"unknown parameter {quote(name)}; this model takes: {allowed}")
        value = as_integer(item)
        if not parameters[name].allows(value):
            raise RequestError("InvalidParameter", f'the parameter "{name}" must be {parameters[name].expected}')
        values[name] = value
    return values


def check_fields(fields: Collection[str], known: Collection[str]) -> None:
    """Refuse fields of a JSON body that its protocol does not have."""
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise RequestError("InvalidBody", f"unknown field {quote(unknown[0])} in the JSON body")


def read_parameters_beside(
    body: Mapping[str, Json],
    names: Collection[str],
    parameters: Mapping[str, Parameter],
    defaults: Mapping[str, Json],
) -> dict[str, Json]:
    """The value of every parameter of a task, of a body that may have them as fields of its own.

    Args:
        body: the JSON body.
        names: its other fields; among them "parameters", if they may be in an object of that name instead.
        parameters, defaults: as in `read_parameters`.

    Raises:
        RequestError: also if the body has another field, or parameters in both places.
    """
    beside = {name: item for name, item in body.items() if name in parameters}
    check_fields(body, {*names, *beside})
    nested = body.get("parameters")
    if beside and nested not in (None, {}):
        raise RequestError("InvalidBody", 'give parameters in "parameters" or as fields of the body, not both')
    return read_parameters(beside or nested, parameters, defaults)
