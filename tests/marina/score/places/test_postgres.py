"""PostgreSQL as a source and as a sink, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from marina.errors import MarinaError
from marina.score.answers import JSON
from marina.score.places import open_sink, open_source
from marina.score.places.database import name_of
from marina.score.places.postgres import open_postgres
from marina.score.places.postgres_sink import PostgresSink
from marina.score.places.postgres_writer import _copy_rows, postgres_type
from marina.score.shards import ShardEvent
from marina.score.spec import Input, Output
from marina.score.values import Counts, Shard, Sink
from tests.marina.score.places import shard_life
from tests.marina.score.places.shard_life import EVENTS, check_life
from tests.marina.score.postgres import postgres

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("score", pa.float64()),
        ("embedding", pa.list_(pa.float32())),
        pa.field("entities", pa.string(), metadata=JSON),
        ("error", pa.string()),
    ]
)
JOB = {"archive": "a", "source": {"in.csv": {"bytes": 10}}}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture
def database(server: str) -> str:
    """The URL of a server without tables."""
    run(server, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return server


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements; returns the rows of the last."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            found = connection.execute(statement)
        return found.fetchall() if found.description else []


def fill(url: str, rows: int) -> None:
    run(
        url,
        "CREATE TABLE resumes (id int PRIMARY KEY, body text, price numeric, more jsonb, at timestamptz)",
        f"INSERT INTO resumes SELECT n, 'text ' || n, n * 1.5, jsonb_build_object('n', n), now() "
        f"FROM generate_series(1, {rows}) AS n",
    )


@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_all_rows_of_a_table_are_read_once(database: str, rows: int) -> None:
    fill(database, 777)
    source = open_postgres(database, "resumes", None, None, None)
    assert source.rows() == 777
    assert source.key == "id"
    shards = source.shards(lambda _: rows)
    assert max(shard.rows for shard in shards) <= rows
    tables = [source.read(shard).rows for shard in shards]
    assert [value for table in tables for value in table["id"].to_pylist()] == list(range(1, 778))
    first = tables[0].slice(0, 1).to_pylist()[0]
    assert (first["body"], first["price"], first["more"]) == ("text 1", "1.5", '{"n": 1}')
    assert pa.types.is_timestamp(tables[0].schema.field("at").type)


def test_rows_of_a_query_have_any_key(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (u uuid, w text)",
        "INSERT INTO t SELECT gen_random_uuid(), n FROM generate_series(1, 250) n",
    )
    source = open_postgres(
        database, None, "SELECT u, w AS text FROM t WHERE w <> '7' AND w NOT LIKE '99%' AND w <> '{}';", "u", 120
    )
    texts = [value for shard in source.shards(lambda _: 100) for value in source.read(shard).rows["text"].to_pylist()]
    assert len(set(texts)) == source.rows() == 120
    assert "7" not in texts


def test_values_that_arrow_has_not_are_errors_of_their_rows(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, day date, plain timestamp, text text)",
        "INSERT INTO t VALUES (1, 'infinity', '2026-01-02', '2026-01-02', 'a'), "
        "(2, now(), '0044-03-15 BC', now(), 'b'), "
        "(3, now(), now(), '-infinity', 'c'), (4, '2026-01-02 00:00+00', NULL, '12026-01-02', 'd'), "
        "(5, '2026-01-02 00:00+00', '2026-01-02', NULL, 'e')",
    )
    source = open_postgres(database, "t", None, None, None)
    (shard,) = source.shards(lambda _: 100)
    read = source.read(shard)
    assert {number: str(error) for number, error in read.unread.items()} == {
        0: 'the column "at" holds infinity, which timestamp[us, tz=UTC] has not',
        1: 'the column "day" holds 0044-03-15 BC, which date32[day] has not',
        2: 'the column "plain" holds -infinity, which timestamp[us] has not',
        3: 'the column "plain" holds 12026-01-02 00:00:00, which timestamp[us] has not',
    }
    assert read.rows["text"].to_pylist() == ["a", "b", "c", "d", "e"]
    assert read.rows["at"].null_count == 1
    some = source.select(frozenset({"text"})).read(shard)
    assert not some.unread
    assert some.rows.schema.names == ["text"]


def test_a_change_is_seen(database: str) -> None:
    fill(database, 200)
    before = open_postgres(database, "resumes", None, None, None)
    assert open_postgres(database, "resumes", None, None, None).state() == before.state()
    run(database, "UPDATE resumes SET body = 'new' WHERE id = 50")
    assert open_postgres(database, "resumes", None, None, None).state() != before.state()
    run(database, "DELETE FROM resumes WHERE id = 50")
    with pytest.raises(MarinaError, match="has changed while it was read: 99 rows from 1 to 100, and not 100"):
        before.read(before.shards(lambda _: 100)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name a table with --table, or give a SELECT with --query"),
        ({"table": "none"}, 'relation "none" does not exist'),
        ({"query": "SELEC 1"}, "syntax error"),
        (
            {"query": "SELECT 1 AS a"},
            "the rows have no column 'id' to tell them apart; they have a; name",
        ),
        ({"query": "SELECT 1 AS id FROM resumes"}, "'id' does not tell all rows apart: 3 rows have 1 values of it"),
        ({"table": "resumes", "url": "postgresql://user:secret@127.0.0.1:1/x"}, "postgresql://127.0.0.1:1/x cannot be"),
    ],
)
def test_what_cannot_be_read_is_refused(database: str, options: dict[str, str], message: str) -> None:
    fill(database, 3)
    with pytest.raises(MarinaError, match=message) as caught:
        open_source(Input(**{"url": database, **options}), frozenset(), None)
    assert "secret" not in str(caught.value)


def part(shard: Shard) -> pa.Table:
    first = 2 * shard.number
    columns = [[first, first + 1], [0.5, None], [[1.0, 2.5], None], ['[{"a": 1}]', None], [None, "why\0"]]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def work(sink: PostgresSink, most: int) -> int:
    """Claim and write shards; returns how many."""
    for done in range(most):
        shard = sink.claim()
        if shard is None:
            return done
        sink.writer.write(shard, part(shard), Counts(2, 1, 10, 20))
    return most


SHARDS = [Shard(number, 2, {"start": number}) for number in range(5)]


@pytest.mark.parametrize("statement", ["DROP TABLE answers", "TRUNCATE answers", "DELETE FROM answers WHERE id = 0"])
def test_answers_that_were_removed_are_missed(database: str, statement: str) -> None:
    sink = PostgresSink(database, "answers", "id")
    sink.begin(JOB, SCHEMA)
    sink.plan(SHARDS)
    assert work(sink, 5) == 5
    assert PostgresSink(database, "answers", "id").begin(JOB, SCHEMA)
    run(database, statement)
    with pytest.raises(MarinaError, match=r"answers holds \d answers of 10 that were written.*; add --restart"):
        PostgresSink(database, "answers", "id").begin(JOB, SCHEMA)
    sink.clear()
    assert not sink.begin(JOB, SCHEMA)
    sink.plan(SHARDS)
    assert work(sink, 5) == 5
    assert run(database, "SELECT count(*) FROM answers") == [(10,)]


def test_several_share_the_shards_of_a_job(database: str) -> None:
    one, two = PostgresSink(database, "answers", "id"), PostgresSink(database, "answers", "id")
    assert not one.begin(JOB, SCHEMA)
    assert not two.begin(JOB, SCHEMA)
    one.plan(SHARDS)
    two.plan(SHARDS)
    assert work(one, 2) == 2
    lost = two.claim()
    assert lost == SHARDS[2]
    assert work(one, 9) == 2
    assert not one.complete()
    run(database, "UPDATE marina_shards SET claimed_until = now() - interval '1 s' WHERE done IS NULL")
    assert work(one, 9) == 1
    two.writer.write(SHARDS[2], part(SHARDS[2]), Counts(2, 1, 10, 20))  # too late
    assert one.complete()
    assert two.done() == Counts(10, 5, 50, 100)
    found = run(database, "SELECT id, score, embedding, entities, error FROM answers ORDER BY id")
    assert [row[0] for row in found] == list(range(10))
    assert found[0][1:] == (0.5, [1.0, 2.5], [{"a": 1}], None)
    assert found[1][1:] == (None, None, None, "why")
    again = PostgresSink(database, "answers", "id")
    assert again.begin(JOB, SCHEMA)
    with pytest.raises(MarinaError, match="the input has changed"):
        again.begin({**JOB, "source": {}}, SCHEMA)


def test_claims_are_kept_and_given_back(database: str) -> None:
    one, two = PostgresSink(database, "answers", None), PostgresSink(database, "answers", None)
    one.begin(JOB, SCHEMA)
    one.plan(SHARDS[:1])
    assert one.claim() == SHARDS[0]
    run(database, "UPDATE marina_shards SET claimed_until = now() - interval '1 s'")
    one.renew()
    assert two.claim() is None
    two.release(SHARDS[0])  # it is not its own
    assert two.claim() is None
    one.release(SHARDS[0])
    assert two.claim() == SHARDS[0]


def test_a_write_that_fails_marks_nothing(database: str) -> None:
    sink = PostgresSink(database, "answers", "id")
    sink.begin(JOB, SCHEMA)
    sink.plan(SHARDS)
    run(database, "ALTER TABLE answers ADD CHECK (id <> 1)")
    shard = sink.claim()
    assert shard
    with pytest.raises(MarinaError, match="violates check constraint") as caught:
        sink.writer.write(shard, part(shard), Counts())
    assert "why" not in str(caught.value)
    assert run(database, "SELECT count(*) FROM answers") == [(0,)]
    assert sink.done() == Counts()


def test_a_table_of_ones_own(database: str) -> None:
    run(database, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    run(
        database,
        "CREATE TABLE own (id int PRIMARY KEY, mine text DEFAULT 'kept', score real, embedding vector(2), "
        "entities text, error text)",
        "INSERT INTO own (id, score) VALUES (0, 9)",
    )
    sink = PostgresSink(database, "public.own", "id")
    sink.begin(JOB, SCHEMA)
    sink.plan(SHARDS)
    assert work(sink, 9) == 5
    assert run(database, "SELECT mine, score, embedding::text FROM own WHERE id = 0") == [("kept", 0.5, "[1,2.5]")]
    sink.clear()
    assert not sink.begin(JOB, SCHEMA)
    assert run(database, "SELECT count(*) FROM own") == [(10,)]  # with a primary key, answers replace answers


def test_binary_embeddings_in_a_column_of_bits(database: str) -> None:
    bits = [(1, "0000001111111111"), (2, None)]
    for kind, values in ((pa.uint8(), [3, 255]), (pa.int8(), [-125, 127])):
        schema = pa.schema([("id", pa.int64()), ("embedding", pa.list_(kind)), ("error", pa.string())])
        rows = pa.table([[1, 2], [values, None], [None, "NoTokens"]], schema=schema)
        run(database, f"CREATE TABLE bits_{kind} (id int PRIMARY KEY, embedding bit(16), error text)")
        for table in (f"bits_{kind}", f"made_{kind}"):
            sink = PostgresSink(database, table, "id")
            sink.begin(JOB, schema)
            sink.plan(SHARDS)
            sink.writer.write(SHARDS[0], rows, Counts())
        assert run(database, f"SELECT id, embedding::text FROM bits_{kind} ORDER BY id") == bits
        assert run(database, f"SELECT embedding FROM made_{kind} WHERE id = 1") == [(values,)]


def test_int8_embeddings(database: str) -> None:
    run(database, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    run(database, "CREATE TABLE int8_vectors (id int PRIMARY KEY, embedding vector(3), error text)")
    embeddings = pa.array([[-128, 0, 127], None], pa.list_(pa.int16()))
    answers = pa.table({"id": [1, 2], "embedding": embeddings, "error": [None, "NoTokens"]})
    for name in ("int8_vectors", "int8_made"):
        sink = PostgresSink(database, name, "id")
        sink.begin(JOB, answers.schema)
        sink.plan(SHARDS)
        sink.writer.write(SHARDS[0], answers, Counts())
    assert run(database, "SELECT embedding::text FROM int8_vectors ORDER BY id") == [("[-128,0,127]",), (None,)]
    assert run(database, "SELECT embedding FROM int8_made ORDER BY id") == [([-128, 0, 127],), (None,)]


def test_sparse_embeddings(database: str) -> None:
    run(database, "CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    run(database, "CREATE TABLE sparse (id int PRIMARY KEY, embedding sparsevec(9), error text)")
    rows = {"id": [1, 2], "embedding": ["{2:0.5,9:1.25}/9", None], "error": [None, "NoTokens"]}
    lists: dict[str, Any] = {
        "id": [1, 2],
        "indices": pa.array([[1, 8], None], pa.list_(pa.int32())),
        "tokens": [["a", None], None],
        "values": pa.array([[0.5, 1.25], None], pa.list_(pa.float32())),
        "error": [None, "NoTokens"],
    }
    for name, answers in (("sparse", pa.table(rows)), ("lists", pa.table(lists))):
        sink = PostgresSink(database, name, "id")
        sink.begin(JOB, answers.schema)
        sink.plan(SHARDS)
        sink.writer.write(SHARDS[0], answers, Counts())
    found = run(database, "SELECT embedding::text, embedding <#> '{9:2}/9' FROM sparse WHERE id = 1")
    assert found == [("{2:0.5,9:1.25}/9", -2.5)]
    assert run(database, "SELECT * FROM lists WHERE id = 1") == [(1, [1, 8], ["a", None], [0.5, 1.25], None)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("CREATE TABLE answers (id int)", "the table answers has no column 'score' for answers; add it, as double"),
        (
            "CREATE TABLE answers AS SELECT 1 AS id, 1 AS score, 1 AS embedding, 1 AS entities, 1 AS error",
            "the table answers has rows, and no primary key",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(database: str, table: str, message: str) -> None:
    run(database, table)
    with pytest.raises(MarinaError, match=message):
        PostgresSink(database, "answers", "id").begin(JOB, SCHEMA)
    with pytest.raises(MarinaError, match="name the table for the answers with --to"):
        open_sink(Output(url=database), None)


def test_passwords_are_not_shown() -> None:
    assert name_of("postgresql://me:secret@host:5432/db") == "postgresql://host:5432/db"


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_shards_in_a_table_live_by_the_table(database: str, events: list[tuple[ShardEvent, int]]) -> None:
    run(database, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    schema = pa.schema([("id", pa.int64()), ("label", pa.string())])
    sinks: list[Sink] = [PostgresSink(database, "answers", "id"), PostgresSink(database, "answers", "id")]
    for sink in sinks:
        if not sink.begin(JOB, schema):
            sink.plan(shard_life.SHARDS)

    def expire() -> list[Sink]:
        run(database, "UPDATE marina_shards SET claimed_until = now() - interval '1 s' WHERE claimed_until IS NOT NULL")
        return sinks

    def answers(shard: Shard) -> Any:
        first = shard.number * shard.rows
        return pa.table({"id": range(first, first + shard.rows), "label": ["x"] * shard.rows}, schema)

    check_life(sinks, events, expire, answers, late_writes=True)
    assert run(database, "SELECT count(*) FROM answers") == [(sinks[0].done().rows,)]


def test_names_with_a_percent_sign(database: str) -> None:
    run(
        database,
        'CREATE TABLE "50 %s" ("id %" int PRIMARY KEY, text text, "discount %" float8)',
        """INSERT INTO "50 %s" VALUES (1, 'a', 0.5)""",
    )
    source = open_postgres(database, "50 %s", None, None, None)
    (shard,) = source.shards(lambda _: 100)
    assert source.read(shard).rows.to_pylist() == [{"id %": 1, "text": "a", "discount %": 0.5}]
    schema = pa.schema([("id %", pa.int32()), ("label", pa.string())])
    sink = PostgresSink(database, "answers %", "id %")
    assert not sink.begin(JOB, schema)
    sink.plan([shard])
    sink.writer.write(shard, pa.table({"id %": [1], "label": ["x"]}, schema), Counts(1))
    assert PostgresSink(database, "answers %", "id %").begin(JOB, schema)
    assert sink.complete()


def test_values_that_postgresql_writes_in_another_way() -> None:
    """Structs are JSON, pgvector takes lists in brackets, and jsonb has no character 0."""
    struct = pa.array([{"b": 1}, None], pa.struct([("b", pa.int64())]))
    vectors = pa.array([[0.5, 1.0], None], pa.list_(pa.float32()))
    meta = pa.array(['{"a":"x\\u0000y","b":"\\\\u0000"}', None])
    schema = pa.schema([("s", struct.type), ("v", vectors.type), pa.field("m", pa.string(), metadata=JSON)])
    assert postgres_type(schema.field("s")) == "jsonb"
    rows = list(_copy_rows(pa.table([struct, vectors, meta], schema), {"s": "text", "v": "halfvec", "m": "jsonb"}))
    assert rows == [('{"b":1}', "[0.5,1.0]", '{"a":"xy","b":"\\\\u0000"}'), (None, None, None)]
