"""Writes answers into a table of PostgreSQL, and keeps there which shards are done.

Two more tables beside the answers' own hold a job and its shards. The answers of a shard and its mark are written in
one transaction. Several `marina score`, on several machines, share the shards of a job: each claims one at a time, for
as long as it renews its claim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.job import check_same
from marina.score.places.database import CLAIM_S, Disconnected, answers_removed_error, claimant, name_of, retried
from marina.score.places.postgres import connected, identifier, primary_key
from marina.score.places.postgres_writer import TableWriter, column_types, postgres_type
from marina.score.values import Counts, Shard

TABLES = """
CREATE TABLE IF NOT EXISTS marina_jobs (job text PRIMARY KEY, description jsonb NOT NULL, planned boolean NOT NULL);
CREATE TABLE IF NOT EXISTS marina_shards (
    job text REFERENCES marina_jobs ON DELETE CASCADE, number int, rows int NOT NULL, place jsonb NOT NULL,
    claimed_by text, claimed_until timestamptz, done timestamptz, counts jsonb, PRIMARY KEY (job, number)
);
"""
LOCK_ID = 0x6D6172696E61  # of advisory locks: "marina"
CLAIM = f"""
UPDATE marina_shards SET claimed_by = %(claimant)s, claimed_until = now() + interval '{CLAIM_S} s'
WHERE job = %(job)s AND number = (
    SELECT number FROM marina_shards
    WHERE job = %(job)s AND done IS NULL AND (claimed_until IS NULL OR claimed_until < now())
    ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING number, rows, place
"""

SET_CLAIMED_UNTIL = "UPDATE marina_shards SET claimed_until = {} WHERE job = %s AND claimed_by = %s AND done IS NULL"


class PostgresSink:
    """Answers in a table; see `Sink`.

    Args:
        url: of the database.
        table: the table; it is made if there is none.
        key: the column of the input that tells rows apart, which becomes the primary key of a table that is made.
    """

    def __init__(self, url: str, table: str, key: str | None) -> None:
        self.name = f"{name_of(url)} {table}"
        self.writer = TableWriter(url, table)
        self._url, self._table, self._key = url, table, key
        self._claimant = claimant()

    def begin(self, description: Mapping[str, Json], schema: pa.Schema) -> bool:
        with connected(self._url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_ID])
            connection.execute(TABLES)
            cursor = connection.execute("SELECT description, planned FROM marina_jobs WHERE job = %s", [self._table])
            stored_description, planned = cursor.fetchone() or (None, False)
            if planned:
                self._check_answers(connection)
            self._prepare_table(connection, schema, is_new=stored_description is None)
            if stored_description is None:
                connection.execute(
                    "INSERT INTO marina_jobs VALUES (%s, %s, false)", [self._table, Jsonb(dict(description))]
                )
                return False
        check_same(stored_description, description, self.name)
        return bool(planned)

    def _check_answers(self, connection: psycopg.Connection[Any]) -> None:
        """MarinaError if the answers of shards that are done are not there."""
        job = sql.Literal(self._table)
        written_sql = sql.SQL("SELECT coalesce(sum(rows), 0) FROM marina_shards WHERE job = {} AND done IS NOT NULL")
        present_sql = sql.SQL("SELECT count(*) FROM {}").format(identifier(self._table))
        exists = self._table_exists(connection)
        counts = sql.SQL("SELECT ({})::int8, ({})::int8").format(
            written_sql.format(job), present_sql if exists else sql.SQL("SELECT 0")
        )
        written, present = connection.execute(counts).fetchone() or (0, 0)
        # a table of the user's own with another key may hold one row for several of the input
        shared = exists and primary_key(connection, self._table) not in ([], [self._key])
        if present < written and not shared:
            raise answers_removed_error(self.name, written, present)

    def _table_exists(self, connection: psycopg.Connection[Any]) -> bool:
        (table_id,) = connection.execute("SELECT to_regclass(%s)", [self._quoted(connection)]).fetchone() or (None,)
        return table_id is not None

    def _prepare_table(self, connection: psycopg.Connection[Any], schema: pa.Schema, is_new: bool) -> None:
        """Make the table, or check that it has the columns of answers."""
        if not self._table_exists(connection):
            columns = [
                sql.SQL("{} {}{}").format(
                    sql.Identifier(field.name),
                    sql.SQL(postgres_type(field)),
                    sql.SQL(" PRIMARY KEY" if field.name == self._key else ""),
                )
                for field in schema
            ]
            statement = sql.SQL("CREATE TABLE {} ({})").format(identifier(self._table), sql.SQL(", ").join(columns))
            connection.execute(statement)
            return
        types = column_types(connection, self._quoted(connection))
        missing = [field for field in schema if field.name not in types]
        if missing:
            raise MarinaError(
                f"the table {self._table} has no column {missing[0].name!r} for answers",
                f"add it, as {postgres_type(missing[0])}, or name a table that does not exist yet",
            )
        keys = primary_key(connection, self._table)
        (has_rows,) = connection.execute(
            sql.SQL("SELECT EXISTS (SELECT FROM {})").format(identifier(self._table))
        ).fetchone() or (False,)
        if is_new and has_rows and not (keys and set(keys) <= set(schema.names)):
            raise MarinaError(
                f"the table {self._table} has rows, and no primary key among the columns of answers, so that answers "
                "would be added to them",
                "empty it, or name another table",
            )

    def _quoted(self, connection: psycopg.Connection[Any]) -> str:
        return identifier(self._table).as_string(connection)

    def plan(self, shards: Sequence[Shard]) -> None:
        with connected(self._url) as connection:
            cursor = connection.execute("SELECT planned FROM marina_jobs WHERE job = %s FOR UPDATE", [self._table])
            if (cursor.fetchone() or [True])[0]:  # another process has planned
                return
            with connection.cursor().copy("COPY marina_shards (job, number, rows, place) FROM STDIN") as copy:
                for shard in shards:
                    copy.write_row((self._table, shard.number, shard.rows, json.dumps(shard.place)))
            connection.execute("UPDATE marina_jobs SET planned = true WHERE job = %s", [self._table])

    @retried
    def claim(self) -> Shard | None:
        with connected(self._url) as connection:
            row = connection.execute(CLAIM, {"claimant": self._claimant, "job": self._table}).fetchone()
        return Shard(*row) if row else None

    def release(self, shard: Shard) -> None:
        with suppress(Disconnected), connected(self._url) as connection:  # a claim ends by itself
            connection.execute(
                f"{SET_CLAIMED_UNTIL.format('NULL')} AND number = %s", [self._table, self._claimant, shard.number]
            )

    @retried
    def renew(self) -> None:
        with connected(self._url) as connection:
            connection.execute(
                SET_CLAIMED_UNTIL.format(f"now() + interval '{CLAIM_S} s'"), [self._table, self._claimant]
            )

    def written(self, shard: Shard) -> None:
        """There is nothing to note: the writer has marked the shard."""

    def done(self) -> Counts:
        with connected(self._url) as connection:
            rows = connection.execute(
                "SELECT counts FROM marina_shards WHERE job = %s AND done IS NOT NULL", [self._table]
            ).fetchall()
        return Counts.total(counts for (counts,) in rows)

    @retried
    def complete(self) -> bool:
        with connected(self._url) as connection:
            row = connection.execute(
                "SELECT NOT EXISTS (SELECT FROM marina_shards WHERE job = %s AND done IS NULL)", [self._table]
            ).fetchone()
        return bool(row and row[0])

    def finish(self) -> None:
        """There is nothing to do: answers are whole with every transaction."""

    def clear(self) -> None:
        with connected(self._url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_ID])
            connection.execute(TABLES)
            deleted = connection.execute("DELETE FROM marina_jobs WHERE job = %s", [self._table])
            # rows with a primary key get the new answers, and the table may hold more than answers
            if deleted.rowcount and self._table_exists(connection) and not primary_key(connection, self._table):
                connection.execute(sql.SQL("DELETE FROM {}").format(identifier(self._table)))

    def close(self) -> None:
        """There is nothing to give back: claims end by themselves."""
