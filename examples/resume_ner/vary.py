"""Other snippets of the same form: entities take the place of others of their kind, made or from other snippets."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import yaml

Entity = tuple[int, int, str]  # start, end (exclusive) and label; positions in characters
Snippet = tuple[str, list[Entity]]
KEPT = 0.4  # share of the entities that stay as they are
MADE = 0.6  # share of the other entities that are made from words.yaml, of the labels that can be
WORDS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))


def vary(snippet: Snippet, others: dict[str, list[str]], chance: random.Random) -> Snippet:
    """A snippet of the same form with other entities.

    Args:
        snippet: a text and its entities, in order.
        others: texts of entities by label, to choose from.
        chance: decides.
    """
    text, entities = snippet
    varied, moved, end = "", [], 0
    for start, stop, label in entities:
        entity = text[start:stop]
        if chance.random() > KEPT:
            entity = _in_the_case_of(entity, _another(label, others, chance))
        varied += text[end:start]
        moved.append((len(varied), len(varied) + len(entity), label))
        varied += entity
        end = stop
    return varied + text[end:], moved


def _another(label: str, others: dict[str, list[str]], chance: random.Random) -> str:
    if label in MAKERS and chance.random() < MADE:
        return MAKERS[label](chance)
    return chance.choice(others[label])


def _in_the_case_of(entity: str, other: str) -> str:
    """The other text in capitals or small letters, if the entity is written so."""
    if entity.isupper() and len(entity) > 4:
        return other.upper()
    return other.lower() if entity.islower() and not other.isupper() else other


def _name(chance: random.Random) -> str:
    first, last, married = (chance.choice(WORDS[key]) for key in ("first_names", "last_names", "last_names"))
    return chance.choice([f"{first} {last}", f"{first} {last}", f"{first[0]}. {last}", f"{first} {last}-{married}"])


def _degree(chance: random.Random) -> str:
    return chance.choice(WORDS["degrees"]).format(chance.choice(WORDS["fields"]))


def _organisation(chance: random.Random) -> str:
    place = chance.choice(WORDS["places"])
    if chance.random() < 0.4:
        return chance.choice(WORDS["schools"]).format(place)
    return chance.choice(WORDS["companies"]).format(place, chance.choice(WORDS["trades"]))


def _date(chance: random.Random) -> str:
    month, until_month = chance.choice(WORDS["months"]), chance.choice(WORDS["months"])
    year = chance.randint(1988, 2024)
    until = year + chance.randint(1, 6)
    days = [str(year), f"{month} {year}", f"{month[:3]} {year}", f"{chance.randint(1, 28)} {month} {year}"]
    days += [f"{chance.randint(1, 12):02d}/{year}", f"since {year}"]
    spans = [f"{year} - {until}", f"{year}–{until}", f"{year} to {until}"]
    spans += [f"{month} {year} - {until_month} {until}", f"{month} {year} - present"]
    return chance.choice(days + spans)


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "NAME": _name,
    "DEGREE": _degree,
    "ORG": _organisation,
    "DATE": _date,
}
