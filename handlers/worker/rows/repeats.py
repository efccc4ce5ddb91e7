"""Rows that are equal, of which only one is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from handlers.worker.values import Row


class Distinct(NamedTuple):
    """Which rows to compute, by index; and for every row, the place among these of the one that it equals."""

    rows: list[int]
    places: list[int]


def distinct(rows: Sequence[Row], members: Sequence[int] | None = None) -> Distinct:
    """Find the rows that are all different.

    Args:
        rows: of a batch.
        members: the number of each row's model, in a bundle; None for one model.
    """
    known: dict[Any, int] = {}
    found = Distinct([], [])
    for index, row in enumerate(rows):
        key: Any = index  # rows of a preprocessing module may differ in any tensor
        if not row.tensors:
            key = members[index] if members else 0, tuple(row.ids), tuple(row.type_ids), row.prompt_tokens
        place = known.setdefault(key, len(found.rows))
        if place == len(found.rows):
            found.rows.append(index)
        found.places.append(place)
    return found
