"""The values that parameters of requests may have."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from handlers.worker.errors import RequestError
from handlers.worker.request.parameters import (
    Parameter,
    choice,
    flag,
    integer,
    numbers_by_name,
    read_parameters,
    word,
    words,
)

KNOWN = {
    "count": integer(3, 1, 9),
    "most": integer(None, 0, null=True),
    "how": choice("a", "b"),
    "where": choice(None, "left"),
    "prompt": word(None),
    "flag": flag(True),
    "maybe": flag(None),
    "names": words(["O"]),
    "limits": numbers_by_name('{"yes": 0.8}'),
}
DEFAULTS = {name: parameter.default for name, parameter in KNOWN.items()}
VALUES: list[Any] = [None, True, False, 0, 1, 5, 9, 10, 1_000_000, 1_000_001, -1, 2.5, "", "a", "b", "left", "x"]
VALUES += [[], ["a"], ["a", 1], {}, {"yes": 0.5}, {"yes": "much"}]
ALLOWED: dict[str, list[Any]] = {
    "count": [1, 5, 9],
    "most": [None, 0, 1, 5, 9, 10, 1_000_000],
    "how": ["a", "b"],
    "where": [None, "left"],
    "prompt": [None, "", "a", "b", "left", "x"],
    "flag": [True, False],
    "maybe": [None, True, False],
    "names": [[], ["a"]],
    "limits": [{}, {"yes": 0.5}],
}


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same type: True is not 1."""
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("name", KNOWN)
def test_a_parameter_takes_what_its_schema_says_and_nothing_else(name: str) -> None:
    schema = jsonschema.Draft202012Validator(KNOWN[name].schema)
    for value in VALUES:
        allowed = any(same(value, one) for one in ALLOWED[name])
        assert schema.is_valid(value) == allowed, value
        if allowed:
            assert same(read_parameters({name: value}, KNOWN, {})[name], value)
        else:
            with pytest.raises(RequestError, match=f'"{name}" must be ') as refused:
                read_parameters({name: value}, KNOWN, {})
            assert str(refused.value).endswith(KNOWN[name].expected)


@pytest.mark.parametrize("limits", [{True: 0.5}, {0: 0.5}, {"yes": float("nan")}])
def test_what_yaml_reads_without_quotes_is_no_name(limits: dict[Any, float]) -> None:
    with pytest.raises(RequestError, match="by names in quotes"):
        read_parameters({"limits": limits}, KNOWN, {})


def test_a_number_without_fraction_is_whole() -> None:
    assert same(read_parameters({"count": 5.0}, KNOWN, {})["count"], 5)
    assert jsonschema.Draft202012Validator(KNOWN["count"].schema).is_valid(5.0)
    for value in (10.0, 5.5, float("nan"), float("inf")):
        with pytest.raises(RequestError, match="a whole number from 1 to 9"):
            read_parameters({"count": value}, KNOWN, {})


def test_what_is_not_given_is_as_the_model_or_the_task_has_it() -> None:
    assert read_parameters(None, KNOWN, {}) == read_parameters({}, KNOWN, {}) == DEFAULTS
    assert read_parameters({"how": "b"}, KNOWN, {"how": "a", "count": 2}) == {**DEFAULTS, "how": "b", "count": 2}


@pytest.mark.parametrize("given", [[], "a", 0, False])
def test_parameters_are_an_object(given: Any) -> None:
    with pytest.raises(RequestError, match='"parameters" must be an object'):
        read_parameters(given, KNOWN, {})


@pytest.mark.parametrize(("known", "listed"), [({"a": flag(True), "b": word(None)}, "a, b"), ({}, "none")])
def test_an_unknown_parameter_is_refused_with_those_that_exist(known: dict[str, Parameter], listed: str) -> None:
    with pytest.raises(RequestError, match=f'unknown parameter "c"; this model takes: {listed}$'):
        read_parameters({"c": 1}, known, {})


@pytest.mark.parametrize(
    ("parameter", "words_for_people"),
    [
        (integer(3, 1, 9), "a whole number from 1 to 9"),
        (integer(None, 0, null=True), "a whole number from 0 to 1000000, or null"),
        (choice("a", "b"), "a or b"),
        (choice(None, "left"), "null or left"),
        (word(None), "a word, or null"),
        (flag(True), "true or false"),
        (flag(None), "true, false or null"),
        (words([]), "a list of words"),
    ],
)
def test_what_is_allowed_is_said(parameter: Parameter, words_for_people: str) -> None:
    assert parameter.expected == words_for_people


@pytest.mark.parametrize(
    "number", [10**400, -(10**400), float("nan"), float("inf")], ids=lambda number: str(number)[:5]
)
def test_numbers_that_no_float_holds_are_refused(number: float) -> None:
    with pytest.raises(RequestError, match="an object of numbers"):
        read_parameters({"limits": {"yes": number}}, KNOWN, {})
