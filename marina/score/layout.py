"""The layout of a job: which columns the model reads, which are carried along, and which hold answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from handlers.worker.archive.artifact import Artifact
from handlers.worker.errors import RequestError
from handlers.worker.request.instances import Answered
from handlers.worker.request.parameters import read_parameters
from handlers.worker.request.schema import Fields, required_fields
from handlers.worker.settings import MemberSettings
from handlers.worker.tasks import TASKS
from handlers.worker.tasks.base import default_parameters
from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.answers import ERROR, TRUNCATED, TypedColumn, answer_columns, array_of
from marina.score.values import Counts

CHUNK_ROWS = 1000  # answers turned into columns together; lists of Python's numbers are large


@dataclass(frozen=True)
class AnswerOptions:
    """The options of a job that decide its answers.

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
        explicit: those that are not the task's own defaults; a server of an older release may know no others.
        answers: the columns of answers.
        options: the options of the job.
    """

    fields: Fields
    parameters: Mapping[str, Json]
    explicit: Mapping[str, Json]
    answers: Sequence[TypedColumn]
    options: AnswerOptions

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns of the input that must hold texts, if they are there."""
        return frozenset(self.options.columns.get(field, field) for field in self.fields.names)

    def columns(self, input_schema: pa.Schema) -> dict[str, str]:
        """The column of each field of an instance; a field that is not required may have none.

        Raises:
            MarinaError: a column is missing or holds no texts, or a field is unknown.
        """
        fields, given_columns = self.fields, self.options.columns
        unknown = sorted(set(given_columns) - set(fields.names))
        if unknown:
            raise MarinaError(f"this model has no field {unknown[0]!r}; it has {', '.join(fields.names)}")
        columns = {}
        for field in fields.names:
            column = given_columns.get(field, field)
            if column in input_schema.names:
                _check_text(column, input_schema)
                columns[field] = column
            elif field in given_columns or field != fields.second or fields.second_required:
                raise MarinaError(
                    f"the input has no column {column!r}; it has {', '.join(input_schema.names) or 'none'}",
                    f"name the column that holds the {field} with --column {field}=NAME",
                )
        return columns

    def schema(self, input_schema: pa.Schema) -> pa.Schema:
        """The schema of the answers to rows of this schema: carried columns, columns of answers, and two more.

        Raises:
            MarinaError: as from `columns`; a column to keep is missing, or a name is there twice.
        """
        self.columns(input_schema)
        keep, prefix = self.options.keep, self.options.prefix
        missing = [name for name in keep or () if name not in input_schema.names]
        if missing:
            raise MarinaError(f"the input has no column {missing[0]!r} to keep; it has {', '.join(input_schema.names)}")
        answer_fields = [column.field for column in self.answers]
        answer_fields += [field.with_name(prefix + field.name) for field in (TRUNCATED, ERROR)]
        carried_names = list(input_schema.names if keep is None else keep)
        repeated = next((name for name in carried_names if carried_names.count(name) > 1), None)
        if repeated is not None:
            raise MarinaError(
                f"two columns to carry along are called {repeated!r}", "choose columns with --keep, each once"
            )
        duplicates = [field.name for field in answer_fields if field.name in carried_names]
        if duplicates:
            raise MarinaError(
                f"both the input and the answers have a column {duplicates[0]!r}",
                f"rename it, choose columns to carry along with --keep, or set {'another' if prefix else 'a'} --prefix",
            )
        return pa.schema([*(input_schema.field(name) for name in carried_names), *answer_fields])

    def used_columns(self, input_schema: pa.Schema) -> frozenset[str]:
        """The columns of the input that are read or carried along; errors as from `schema`."""
        return frozenset([*self.columns(input_schema).values(), *self.schema(input_schema).names])

    def table(self, rows: pa.Table, answers: Iterable[Answered | RequestError]) -> tuple[pa.Table, Counts]:
        """The answers to rows, and their counts without tokens.

        Args:
            rows: the rows of the input.
            answers: for each row its answer, or why it has none; they are taken a few at a time.

        Raises:
            MarinaError: as from `schema`.
        """
        schema = self.schema(rows.schema)
        answer_fields = list(schema)[-len(self.answers) - 2 :]
        column_chunks: list[list[pa.Array]] = [[] for _ in answer_fields]
        errors, truncated, remaining = 0, 0, iter(answers)
        while batch := list(itertools.islice(remaining, CHUNK_ROWS)):
            errors += sum(isinstance(answer, RequestError) for answer in batch)
            truncated += sum(isinstance(answer, Answered) and answer.truncated for answer in batch)
            for chunks, field, values in zip(column_chunks, answer_fields, self._column_values(batch), strict=True):
                chunks.append(array_of(values, field.type))
        columns = [
            pa.chunked_array(chunks, field.type) for chunks, field in zip(column_chunks, answer_fields, strict=True)
        ]
        carried = [rows[name] for name in schema.names[: -len(answer_fields)]]
        return pa.table([*carried, *columns], schema=schema), Counts(len(rows), errors, truncated=truncated)

    def _column_values(self, answers: Sequence[Answered | RequestError]) -> Iterator[list[Any]]:
        """The values of each column of answers."""
        for column in self.answers:
            yield [column.value(answer.answer) if isinstance(answer, Answered) else None for answer in answers]
        yield [answer.truncated if isinstance(answer, Answered) else None for answer in answers]
        yield [None if isinstance(answer, Answered) else f"{answer.kind}: {answer}" for answer in answers]


def layout_of(artifact: Artifact, settings: MemberSettings, options: AnswerOptions) -> Layout:
    """The layout of a job.

    Args:
        artifact: the model's artifact.
        settings: how the model is served.
        options: the options of the job.

    Raises:
        RequestError: a parameter is unknown, or its value is not allowed.
    """
    task, signature = TASKS[artifact.task], artifact.signature
    defaults = default_parameters(task, artifact, settings.parameters)
    parameters = read_parameters(dict(options.parameters), task.parameters, defaults)
    answers = answer_columns(task.name, signature, parameters, options.prefix)
    if parameters.get("top_k", 1) is None:
        parameters["top_k"] = 1  # only the best label has a column
    fields = required_fields(signature.fields) if signature.fields else task.fields
    explicit = {
        name: value
        for name, value in parameters.items()
        if name in {*defaults, *options.parameters} or value != task.parameters[name].default
    }
    return Layout(fields, parameters, explicit, answers, options)


def _check_text(column: str, input_schema: pa.Schema) -> None:
    if input_schema.names.count(column) > 1:
        raise MarinaError(f"the input has several columns {column!r}; rename all but one")
    column_type = input_schema.field(column).type
    value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    if not (pa.types.is_string(value_type) or pa.types.is_large_string(value_type) or pa.types.is_null(value_type)):
        raise MarinaError(
            f"the column {column!r} holds {column_type}, and not texts; convert it, or name another column"
        )
