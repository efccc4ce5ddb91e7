"""The layout of a job: which columns the model reads, which are carried along, and which hold answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from handlers.worker.artifact import Artifact
from handlers.worker.errors import RequestError
from handlers.worker.request.instances import Answered
from handlers.worker.request.parameters import read_parameters
from handlers.worker.request.schema import Fields, own_fields
from handlers.worker.settings import MemberSettings
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import own_parameters
from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.answers import ERROR, TRUNCATED, TypedColumn, answer_columns

AT_ONCE = 1000  # answers turned into columns at once, as lists of Python's numbers are large


@dataclass(frozen=True)
class AnswerOptions:
    """What a person asks of a job.

    Attributes:
        columns: columns by field of an instance, where they are not named as the fields are.
        parameters: request parameters for every row.
        keep: columns of the input to carry along; None for all.
        prefix: for the names of the columns of answers.
    """

    columns: Mapping[str, str]
    parameters: Mapping[str, Json]
    keep: tuple[str, ...] | None
    prefix: str


@dataclass(frozen=True)
class Layout:
    """How the rows of a job are read and answered.

    Attributes:
        fields: the fields of an instance.
        parameters: the value of every parameter of the task.
        answers: the columns of answers.
        asked: what was asked for.
    """

    fields: Fields
    parameters: Mapping[str, Json]
    answers: Sequence[TypedColumn]
    asked: AnswerOptions

    @property
    def texts(self) -> frozenset[str]:
        """The columns of the input that hold texts, if they are there."""
        return frozenset(self.asked.columns.get(field, field) for field in self.fields.names)

    def columns(self, rows: pa.Schema) -> dict[str, str]:
        """The column of each field of an instance; a field that is not required may have none.

        Raises:
            MarinaError: a column is missing or holds no texts, or a field is unknown.
        """
        fields, named = self.fields, self.asked.columns
        unknown = sorted(set(named) - set(fields.names))
        if unknown:
            raise MarinaError(f"this model has no field {unknown[0]!r}; it has {', '.join(fields.names)}")
        found = {}
        for field in fields.names:
            column = named.get(field, field)
            if column in rows.names:
                _check_text(column, rows)
                found[field] = column
            elif field in named or field != fields.second or fields.second_required:
                raise MarinaError(
                    f"the input has no column {column!r}; it has {', '.join(rows.names) or 'none'}",
                    f"name the column that holds the {field} with --column {field}=NAME",
                )
        return found

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the answers to rows with these columns: those carried along, the answer's, and two more.

        Raises:
            MarinaError: as from `columns`; a column to keep is missing, or a name is there twice.
        """
        self.columns(rows)
        keep, prefix = self.asked.keep, self.asked.prefix
        missing = [name for name in keep or () if name not in rows.names]
        if missing:
            raise MarinaError(f"the input has no column {missing[0]!r} to keep; it has {', '.join(rows.names)}")
        own = [column.field for column in self.answers]
        own += [field.with_name(prefix + field.name) for field in (TRUNCATED, ERROR)]
        carried = list(rows.names if keep is None else keep)
        twice = [field.name for field in own if field.name in carried]
        if twice:
            raise MarinaError(
                f"both the input and the answers have a column {twice[0]!r}",
                f"rename it, choose columns to carry along with --keep, or set {'another' if prefix else 'a'} --prefix",
            )
        return pa.schema([*(rows.field(name) for name in carried), *own])

    def needed(self, rows: pa.Schema) -> frozenset[str]:
        """The columns that are read or carried along, of rows with these columns; errors as from `schema`."""
        return frozenset([*self.columns(rows).values(), *self.schema(rows).names])

    def table(self, rows: pa.Table, answers: Iterable[Answered | RequestError]) -> tuple[pa.Table, int]:
        """The answers to rows, and how many of them are errors.

        Args:
            rows: the rows of the input.
            answers: for each row its answer, or why it has none; they are taken a few at a time.

        Raises:
            MarinaError: as from `schema`.
        """
        schema = self.schema(rows.schema)
        own = list(schema)[-len(self.answers) - 2 :]
        pieces: list[list[pa.Array]] = [[] for _ in own]
        errors, waiting = 0, iter(answers)
        while some := list(itertools.islice(waiting, AT_ONCE)):
            errors += sum(isinstance(one, RequestError) for one in some)
            for piece, field, values in zip(pieces, own, self._values(some), strict=True):
                piece.append(pa.array(values, field.type))
        columns = [pa.chunked_array(piece, field.type) for piece, field in zip(pieces, own, strict=True)]
        carried = [rows[name] for name in schema.names[: -len(own)]]
        return pa.table([*carried, *columns], schema=schema), errors

    def _values(self, answers: Sequence[Answered | RequestError]) -> Iterator[list[Any]]:
        """The values of each column of answers."""
        for _, value in self.answers:
            yield [value(answer.answer) if isinstance(answer, Answered) else None for answer in answers]
        yield [answer.cut if isinstance(answer, Answered) else None for answer in answers]
        yield [None if isinstance(answer, Answered) else f"{answer.kind}: {answer}" for answer in answers]


def layout_of(artifact: Artifact, settings: MemberSettings, asked: AnswerOptions) -> Layout:
    """The layout of a job.

    Args:
        artifact: the model's artifact.
        settings: how the model is served.
        asked: what is asked for.

    Raises:
        RequestError: a parameter is unknown, or its value is not allowed.
    """
    task, signature = TASKS[artifact.task], artifact.signature
    defaults = own_parameters(task, artifact, settings.parameters)
    parameters = read_parameters(dict(asked.parameters), task.parameters, defaults)
    answers = answer_columns(task.name, signature, parameters, asked.prefix)
    if parameters.get("top_k", 1) is None:
        parameters["top_k"] = 1  # only the best label has a column
    fields = own_fields(signature.fields) if signature.fields else task.fields
    return Layout(fields, parameters, answers, asked)


def _check_text(column: str, rows: pa.Schema) -> None:
    if rows.names.count(column) > 1:
        raise MarinaError(f"the input has several columns {column!r}; rename all but one")
    kind = rows.field(column).type
    texts = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(texts) or pa.types.is_large_string(texts) or pa.types.is_null(texts)):
        raise MarinaError(f"the column {column!r} holds {kind}, and not texts; convert it, or name another column")
