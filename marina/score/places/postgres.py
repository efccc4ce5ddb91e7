"""PostgreSQL: rows of a table or a query, in the order of a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.adapt import Loader
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader

from handlers.worker.errors import RequestError
from handlers.worker.request.text import quote
from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.answers import JSON
from marina.score.formats.scan import STEP, ShardSize
from marina.score.places.database import Disconnected, first_line, key_shards, name_of, retried
from marina.score.values import Read, Shard, selected

# Arrow types of PostgreSQL's types; values of other types are carried as texts
TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
}


class Unreadable(NamedTuple):
    """The text of a value of PostgreSQL that Python and Arrow have not."""

    text: str


class _TolerantLoader(Loader):
    """Loads times; a time that Python has not (infinity, years before 1 and after 9999) becomes `Unreadable`."""

    def load(self, data: Any) -> Any:
        try:
            return super().load(data)  # type: ignore[safe-super]
        except psycopg.DataError:
            return Unreadable(bytes(data).decode())


class _Date(_TolerantLoader, DateLoader): ...


class _Timestamp(_TolerantLoader, TimestampLoader): ...


class _Timestamptz(_TolerantLoader, TimestamptzLoader): ...


LOADERS = {"date": _Date, "timestamp": _Timestamp, "timestamptz": _Timestamptz}


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in a transaction, committed at the end; MarinaError for any error of the database."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise Disconnected(f"{name_of(url)} cannot be reached: {first_line(error)}") from None
    except psycopg.Error as error:
        raise MarinaError(f"{name_of(url)}: {first_line(error)}") from None


@dataclass(frozen=True)
class PostgresSource:
    """Rows of a query; see `RowSource`.

    query selects them, key is the column that tells them apart and orders them, key_type its type. checksum is the
    checksum of all rows. pieces have the first and the last key, as texts, and the number of some rows each.
    """

    url: str
    name: str
    schema: pa.Schema
    query: str
    key: str
    key_type: str
    checksum: str
    pieces: Sequence[tuple[str, str, int]]

    def select(self, columns: frozenset[str]) -> PostgresSource:
        return replace(self, schema=selected(self.schema, columns))

    def rows(self) -> int:
        return sum(rows for _, _, rows in self.pieces)

    def shards(self, shard_size: ShardSize) -> list[Shard]:
        return key_shards(self.pieces, shard_size)

    @retried
    def read(self, shard: Shard) -> Read:
        # no parameters: with them, psycopg would read a % in names
        statement = sql.SQL(
            "SELECT {columns} FROM ({query}) AS q "
            "WHERE q.{key} BETWEEN {first}::{kind} AND {last}::{kind} ORDER BY q.{key}"
        ).format(
            columns=_columns(self.schema),
            query=sql.SQL(self.query),
            key=sql.Identifier(self.key),
            kind=sql.SQL(self.key_type),
            first=sql.Literal(shard.place["first"]),
            last=sql.Literal(shard.place["last"]),
        )
        with connected(self.url) as connection:
            for kind_name, loader in LOADERS.items():
                connection.adapters.register_loader(kind_name, loader)
            rows = connection.execute(statement).fetchall()
        if len(rows) != shard.rows:
            raise MarinaError(
                f"{self.name} has changed while it was read: {len(rows)} rows from {shard.place['first']} to "
                f"{shard.place['last']}, and not {shard.rows}",
                "add --restart to answer everything again",
            )
        unread: dict[int, RequestError] = {}
        arrays = []
        for index, field in enumerate(self.schema):
            column = [row[index] for row in rows]
            for number, value in enumerate(column):
                if isinstance(value, Unreadable):
                    message = f"the column {quote(field.name)} holds {value.text}, which {field.type} has not"
                    unread[number], column[number] = RequestError("InvalidInstance", message), None
            arrays.append(pa.array(column, field.type))
        return Read(pa.table(arrays, schema=self.schema), unread)

    def state(self) -> dict[str, Json]:
        return {self.name: {"query": self.query, "rows": self.rows(), "checksum": self.checksum}}


def _columns(schema: pa.Schema) -> sql.Composed:
    """The columns to select; a column whose type Arrow has not is selected as texts."""
    selected = []
    for field in schema:
        column = sql.SQL("q.{}").format(sql.Identifier(field.name))
        selected.append(sql.SQL("{}::text").format(column) if pa.types.is_string(field.type) else column)
    return sql.SQL(", ").join(selected)


def open_postgres(
    url: str, table: str | None, query: str | None, key: str | None, max_rows: int | None
) -> PostgresSource:
    """Find the rows of a table or a query.

    Args:
        url: of the database, as PostgreSQL's own tools take it.
        table: a table, perhaps with its schema before a dot.
        query: a SELECT, in place of a table.
        key: the column that tells rows apart; None for the table's primary key.
        max_rows: only this many rows; None for all.

    Raises:
        MarinaError: the database cannot be reached, or there are no such rows or no such key.
    """
    if (table is None) == (query is None):
        raise MarinaError(f"{name_of(url)} is a database", "name a table with --table, or give a SELECT with --query")
    with connected(url) as connection:
        if table is not None:
            keys = primary_key(connection, table)
            key = key or (keys[0] if len(keys) == 1 else None)
            query = sql.SQL("SELECT * FROM {}").format(identifier(table)).as_string(connection)
        query = str(query).strip().rstrip(";")
        columns = connection.execute(f"SELECT * FROM ({query}) AS q LIMIT 0").description or []
        names = [column.name for column in columns]
        key = key or "id"
        if key not in names:
            raise MarinaError(
                f"the rows have no column {key!r} to tell them apart; they have {', '.join(names)}",
                "name one with --key",
            )
        types = dict(zip(names, _type_names(connection, [column.type_code for column in columns]), strict=True))
        column = sql.Identifier(key).as_string(connection)
        totals = connection.execute(
            f"SELECT count(*), count(DISTINCT q.{column}), coalesce(sum(hashtextextended(q::text, 0)), 0)::text "
            f"FROM ({query}) AS q"
        )
        rows, distinct, checksum = totals.fetchone() or (0, 0, "0")
        if distinct != rows:
            message = f"the column {key!r} does not tell all rows apart: {rows} rows have {distinct} values of it"
            raise MarinaError(message)
        limit = f"LIMIT {max_rows}" if max_rows is not None else ""
        boundaries = connection.execute(
            f"SELECT key::text, n FROM (SELECT q.{column} AS key, row_number() OVER (ORDER BY q.{column}) - 1 AS n "
            f"FROM ({query}) AS q ORDER BY n {limit}) AS s "
            f"WHERE n % {STEP} IN (0, {STEP - 1}) "
            f"OR n = {min(rows, rows if max_rows is None else max_rows) - 1} ORDER BY n"
        ).fetchall()
    schema = pa.schema([_field(name, kind) for name, kind in types.items()])
    source_name = f"{name_of(url)} {table or 'query'}"
    return PostgresSource(url, source_name, schema, query, key, types[key], checksum, _pieces(boundaries))


def _pieces(boundaries: Sequence[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """Pieces of `STEP` rows, from the keys and numbers of their first and last rows."""
    pieces = []
    for key, number in boundaries:
        if number % STEP == 0:
            pieces.append((key, key, 1))
        else:
            first, _, _ = pieces.pop()
            pieces.append((first, key, number % STEP + 1))
    return pieces


def identifier(table: str) -> sql.Identifier:
    """The name of a table, perhaps with its schema before a dot."""
    return sql.Identifier(*table.split("."))


def primary_key(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """The columns of a table's primary key; none if it has none."""
    rows = connection.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s::regclass AND i.indisprimary",
        [identifier(table).as_string(connection)],
    )
    return [str(name) for (name,) in rows]


def _type_names(connection: psycopg.Connection[Any], codes: Sequence[int]) -> list[str]:
    type_names = dict(connection.execute("SELECT oid::int8, typname FROM pg_type WHERE oid = ANY(%s)", [list(codes)]))
    return [str(type_names[code]) for code in codes]


def _field(name: str, kind: str) -> pa.Field:
    if kind in ("json", "jsonb"):
        return pa.field(name, pa.string(), metadata=JSON)
    return pa.field(name, TYPES.get(kind, pa.string()))
