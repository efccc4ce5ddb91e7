"""Plain values that the stages of a job exchange: shards, the rows read of them, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from handlers.worker.errors import RequestError
from handlers.worker.values import Json


class Shard(NamedTuple):
    """Some rows of a source that are read, answered and written together.

    Attributes:
        number: its place among the shards of the job, from 0.
        rows: how many rows it has.
        place: where they are in the source, as JSON.
    """

    number: int
    rows: int
    place: Mapping[str, Json]


class Read(NamedTuple):
    """Rows of a source, and the errors of rows that could not be read, by row number."""

    rows: pa.Table
    unread: Mapping[int, RequestError]


def selected(schema: pa.Schema, columns: frozenset[str]) -> pa.Schema:
    """The fields of a schema whose names are among `columns`."""
    return pa.schema([field for field in schema if field.name in columns])


class Counts(NamedTuple):
    """What became of rows.

    Attributes:
        rows: their number.
        errors: how many have an error.
        tokens, computed: their tokens without and with padding.
        truncated: how many had a text that was cut, because it is longer than the model reads.
    """

    rows: int = 0
    errors: int = 0
    tokens: int = 0
    computed: int = 0
    truncated: int = 0

    @classmethod
    def total(cls, documents: Iterable[Mapping[str, Json]]) -> Counts:
        """The sums of counts that a sink has stored; older releases stored fewer."""
        sums = Counter[str]()
        for document in documents:
            sums.update({name: document.get(name, 0) for name in cls._fields})
        return cls(*(sums[name] for name in cls._fields))

    def plus(self, other: Counts) -> Counts:
        """The sums."""
        return Counts(*(left + right for left, right in zip(self, other, strict=True)))


class StagedScorer(Protocol):
    """Answers rows in three stages, each of which can run while the next rows are in the stage before.

    Only the scorer knows the values that its stages pass on to each other.
    """

    @property
    def longest_row_ms(self) -> float:
        """Milliseconds of a row of the longest shape, about."""

    def encode(self, read: Read, /) -> Any:
        """Prepare rows."""

    def compute(self, encoded: Any, /) -> Any:
        """Compute them."""

    def answer(self, computed: Any, /) -> tuple[pa.Table, Counts]:
        """The answers to rows, and their counts."""


class RowSource(Protocol):
    """Where rows come from. It can be pickled, and read in several processes."""

    @property
    def name(self) -> str:
        """The name shown to people, without secrets."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    @property
    def key(self) -> str | None:
        """The column that tells rows apart, if there is one."""

    def select(self, columns: frozenset[str]) -> RowSource:
        """The same rows with some of their columns; values of the other columns cannot keep a row from being read."""

    def rows(self) -> int:
        """The number of rows."""

    def shards(self, shard_size: Callable[[int], int]) -> list[Shard]:
        """All rows in shards; `shard_size` gives the row limit of the next shard, from the number of rows left."""

    def read(self, shard: Shard) -> Read:
        """The rows of a shard, in order."""

    def state(self) -> dict[str, Json]:
        """What identifies the contents: for each part its facts, all equal as long as it does not change."""


class Writer(Protocol):
    """Writes the answers of shards. It can be pickled, and used in several processes."""

    def write(self, shard: Shard, answers: pa.Table, counts: Counts) -> None:
        """Write the answers of a shard and mark it as done, both or neither."""


class Sink(Protocol):
    """Where answers go, and which shards of a job are done."""

    @property
    def name(self) -> str:
        """The name shown to people, without secrets."""

    @property
    def writer(self) -> Writer:
        """The writer that processes use."""

    def begin(self, description: Mapping[str, Json], schema: pa.Schema) -> bool:
        """Begin a job, or go on with it.

        Args:
            description: what decides the answers, as JSON.
            schema: the columns of answers.

        Returns:
            Whether the job had begun before, so that its shards are known.

        Raises:
            MarinaError: other answers are there, another process writes there, or the job had begun with another
                description.
        """

    def plan(self, shards: Sequence[Shard]) -> None:
        """Store the shards of a job that begins."""

    def claim(self) -> Shard | None:
        """A shard that is not done, and that nobody works on; None if there is none at present."""

    def release(self, shard: Shard) -> None:
        """Give back a shard that was claimed and is not written."""

    def renew(self) -> None:
        """Renew the claims of this process; called every few seconds."""

    def written(self, shard: Shard) -> None:
        """Take note that a shard was written."""

    def done(self) -> Counts:
        """What became of the rows of all shards that are done."""

    def complete(self) -> bool:
        """Whether all shards are done."""

    def finish(self) -> None:
        """Make the answers whole, after the last shard."""

    def clear(self) -> None:
        """Remove the answers and the shards of any job."""

    def close(self) -> None:
        """Give back locks and claims of the job."""
