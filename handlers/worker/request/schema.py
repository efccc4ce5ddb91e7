"""The schema of a task's requests: the fields of an instance, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from handlers.worker.request.parameters import Parameter


class Fields(NamedTuple):
    """The JSON fields of an instance.

    A bare text is accepted as an instance unless the second field is required. `second` is None if
    an instance is one text.
    """

    first: str
    second: str | None = None
    second_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The input of a task, and whether its answers are vectors, which requests may ask to compare."""

    fields: Fields
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    vectors: bool = False
