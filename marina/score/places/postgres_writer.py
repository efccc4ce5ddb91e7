"""Writes the answers of a shard into a table of PostgreSQL, with its mark that it is done, in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb

from marina.score.answers import is_json, is_number
from marina.score.formats.values import json_text, values_of
from marina.score.places.database import retried
from marina.score.places.postgres import connected, identifier, primary_key
from marina.score.values import Counts, Shard

BYTES = (pa.uint8(), pa.int8())  # of binary embeddings
ARRAYS = {pa.float32(): "real[]", pa.int32(): "integer[]", pa.int16(): "smallint[]", pa.string(): "text[]"}

VECTORS = ("vector", "halfvec")  # of pgvector
NULL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # character 0 in JSON, which jsonb does not store


@dataclass(frozen=True)
class TableWriter:
    """Writes answers into a table; see `Writer`.

    url is the database, table the table, which is also the name of the job.
    """

    url: str
    table: str

    @retried
    def write(self, shard: Shard, answers: pa.Table, counts: Counts) -> None:
        names = [sql.Identifier(name) for name in answers.schema.names]
        columns = sql.SQL(", ").join(names)
        table = identifier(self.table)
        with connected(self.url) as connection:
            marked = connection.execute(
                "UPDATE marina_shards SET done = now(), counts = %s WHERE job = %s AND number = %s AND done IS NULL",
                [Jsonb(counts._asdict()), self.table, shard.number],
            )
            if not marked.rowcount:  # another process was quicker
                return
            connection.execute(
                sql.SQL("CREATE TEMP TABLE marina_part ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0").format(
                    columns, table
                )
            )
            types = column_types(connection, "marina_part")
            with connection.cursor().copy(sql.SQL("COPY marina_part ({}) FROM STDIN").format(columns)) as copy:
                for row in _copy_rows(answers, types):
                    copy.write_row(row)
            connection.execute(
                sql.SQL("INSERT INTO {} ({}) SELECT * FROM marina_part {}").format(
                    table, columns, _on_conflict(connection, self.table, answers.schema.names)
                )
            )


def _on_conflict(connection: psycopg.Connection[Any], table: str, names: Sequence[str]) -> sql.Composable:
    """The ON CONFLICT clause: rows whose key is in the table already get the new answers."""
    keys = primary_key(connection, table)
    if not keys or not set(keys) <= set(names):
        return sql.SQL("")
    values = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names if name not in keys]
    return sql.SQL("ON CONFLICT ({}) DO UPDATE SET {}").format(
        sql.SQL(", ").join(map(sql.Identifier, keys)), sql.SQL(", ").join(values)
    )


def column_types(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """The types of a table's columns."""
    rows = connection.execute(
        "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped",
        [table],
    )
    return {str(name): str(kind) for name, kind in rows}


def _copy_rows(answers: pa.Table, types: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """The rows as COPY takes them."""
    columns = []
    for field, column in zip(answers.schema, answers.columns, strict=True):
        values = values_of(column)
        column_type = types[field.name]
        if pa.types.is_list(field.type) and field.type.value_type in BYTES:
            lowest = -128 if field.type.value_type == pa.int8() else 0
            values = [None if value is None else _signs(value, lowest, column_type) for value in values]
        elif (
            column_type in VECTORS
            or pa.types.is_struct(field.type)
            or pa.types.is_map(field.type)
            or (column_type in ("json", "jsonb") and not is_json(field))
        ):
            values = [None if value is None else json_text(value) for value in values]
        elif pa.types.is_list(field.type) and field.type.value_type == pa.float32():
            values = [None if value is None else value.tolist() for value in values]
        elif pa.types.is_list(field.type) and not column_type.startswith("_"):  # _int4 is int[]
            values = [None if value is None else json_text(value) for value in values]
        if column_type == "jsonb":
            values = [value and NULL_ESCAPE.sub(r"\1", value) for value in values]
        columns.append(list(map(_without_null, values)))
    return zip(*columns, strict=True)


def _without_null(value: Any) -> Any:
    """A value, or a list of them, whose texts have no character 0, which PostgreSQL does not store."""
    if isinstance(value, str):
        return value.replace("\0", "")
    return list(map(_without_null, value)) if isinstance(value, list) and value and isinstance(value[0], str) else value


def _signs(values: Sequence[int], lowest: int, column_type: str) -> Any:
    """A binary embedding, whose bytes count from a lowest one, for a column of some type; pgvector compares `bit`."""
    if column_type in ("bit", "varbit"):
        return "".join(f"{value - lowest:08b}" for value in values)
    return json_text(values) if column_type in ("json", "jsonb") else list(values)


def postgres_type(field: pa.Field) -> str:
    """The type of PostgreSQL for a column of answers."""
    arrow_type = field.type
    if is_number(field):
        return "double precision"
    if is_json(field):
        return "jsonb"
    if pa.types.is_list(arrow_type):
        value_type = arrow_type.value_type
        return "smallint[]" if value_type in BYTES else ARRAYS.get(value_type, "jsonb")
    simple_types = {
        pa.bool_(): "boolean",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.date32(): "date",
        pa.binary(): "bytea",
    }
    if pa.types.is_nested(arrow_type):
        return "jsonb"
    if pa.types.is_timestamp(arrow_type):
        return "timestamptz" if arrow_type.tz else "timestamp"
    return simple_types.get(arrow_type, "text")
