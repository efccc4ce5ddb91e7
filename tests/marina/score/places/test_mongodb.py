"""MongoDB as a source and as a sink, on mongomock in place of a server."""

from __future__ import annotations

import datetime
from typing import Any

import mongomock.store
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from marina.errors import MarinaError
from marina.score.answers import JSON
from marina.score.places import open_source
from marina.score.places.mongodb_sink import MongoSink
from marina.score.shards import ShardEvent
from marina.score.spec import Input
from marina.score.values import Counts, Shard, Sink
from tests.marina.score.places import shard_life
from tests.marina.score.places.shard_life import EVENTS, check_life

URL = "mongodb://host/hr"
SCHEMA = pa.schema([("_id", pa.string()), ("label", pa.string()), pa.field("entities", pa.string(), metadata=JSON)])
SHARDS = [Shard(number, 2, {"first": number}) for number in range(4)]
JOB = {"archive": "a", "source": {"hr.resumes": {"rows": 10}}}


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The database of `URL`, which every client sees."""
    store = mongomock.store.ServerStore()
    base: Any = mongomock.MongoClient

    class Client(base):  # type: ignore[misc]
        def __class_getitem__(cls, _: Any) -> Any:
            return cls

        def __init__(self, url: str, **_: Any) -> None:
            super().__init__(url, _store=store)

    monkeypatch.setattr("pymongo.MongoClient", Client)
    return Client(URL).get_default_database()


def test_all_documents_are_read_once(database: Any) -> None:
    at = datetime.datetime(2026, 1, 2)
    documents = [{"body": f"text {n}", "years": n, "tags": {"a": [n]}, "at": at} for n in range(333)]
    database.resumes.insert_many(documents)
    database.resumes.insert_one({"body": 5})
    source = open_source(Input(url=URL, table="resumes"), frozenset({"body"}), None)
    assert source.rows() == 334
    reads = [source.read(shard) for shard in source.shards(lambda _: 100)]
    rows = [row for read in reads for row in read.rows.to_pylist()]
    assert [row["body"] for row in rows] == [*(f"text {n}" for n in range(333)), None]
    assert rows[3]["tags"] == '{"a":[3]}'
    assert rows[3]["at"] == "2026-01-02T00:00:00"
    assert [str(error) for error in reads[-1].unread.values()] == ['the field "body" must be a text, not a number']
    some = open_source(Input(url=URL, table="resumes", query='{"years": {"$gte": 330}}'), frozenset(), None)
    assert some.rows() == 3
    assert open_source(Input(url=URL, table="resumes"), frozenset(), 7).rows() == 7
    before = source.state()
    database.resumes.update_one({"years": 5}, {"$set": {"body": "new"}})
    assert open_source(Input(url=URL, table="resumes"), frozenset({"body"}), None).state() != before


def test_answers_are_written_once_however_often(database: Any) -> None:
    one, two = MongoSink(URL, "answers"), MongoSink(URL, "answers")
    assert not one.begin(JOB, SCHEMA)
    one.plan(SHARDS)
    assert two.begin(JOB, SCHEMA)
    for sink in (one, two, one, one):
        shard = sink.claim()
        assert shard
        ids = [f"{shard.number}a", f"{shard.number}b"]
        answers = pa.table({"_id": ids, "label": ["x", None], "entities": ['[{"a":1}]', None]}, SCHEMA)
        for _ in range(2):
            sink.writer.write(shard, answers, Counts(2, 1, 3, 4))
    assert one.claim() is None
    assert one.complete()
    assert two.done() == Counts(8, 4, 12, 16)
    assert database.answers.count_documents({}) == 8
    assert database.answers.find_one({"_id": "0a"}) == {"_id": "0a", "label": "x", "entities": [{"a": 1}]}
    with pytest.raises(MarinaError, match="the archive has changed"):
        two.begin({**JOB, "archive": "b"}, SCHEMA)
    two.clear()
    assert not two.begin({**JOB, "archive": "b"}, SCHEMA)


def test_answers_that_were_removed_are_missed(database: Any) -> None:
    sink = MongoSink(URL, "answers")
    sink.begin(JOB, SCHEMA)
    sink.plan(SHARDS)
    shard = sink.claim()
    assert shard
    sink.writer.write(
        shard, pa.table({"_id": ["a", "b"], "label": ["x", "y"], "entities": [None, None]}, SCHEMA), Counts(2)
    )
    assert MongoSink(URL, "answers").begin(JOB, SCHEMA)
    database.answers.drop()
    with pytest.raises(MarinaError, match=r"hr answers holds 0 answers of 2 that were written.*; add --restart"):
        MongoSink(URL, "answers").begin(JOB, SCHEMA)
    sink.clear()
    assert not sink.begin(JOB, SCHEMA)


@pytest.mark.usefixtures("database")
def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(MarinaError, match="name a collection with --table"):
        open_source(Input(url=URL), frozenset(), None)
    with pytest.raises(MarinaError, match="--query is not JSON"):
        open_source(Input(url=URL, table="resumes", query="{"), frozenset(), None)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_shards_in_a_collection_live_by_the_table(database: Any, events: list[tuple[ShardEvent, int]]) -> None:
    for name in database.list_collection_names():
        database.drop_collection(name)
    sinks: list[Sink] = [MongoSink(URL, "answers"), MongoSink(URL, "answers")]
    for sink in sinks:
        if not sink.begin(JOB, SCHEMA):
            sink.plan(shard_life.SHARDS)

    def expire() -> list[Sink]:
        database.marina_shards.update_many({}, {"$set": {"claimed_until": datetime.datetime(2026, 1, 2)}})
        return sinks

    def answers(shard: Shard) -> Any:
        ids = [f"{shard.number}-{row}" for row in range(shard.rows)]
        return pa.table({"_id": ids, "label": ["x"] * shard.rows, "entities": ["[]"] * shard.rows}, SCHEMA)

    check_life(sinks, events, expire, answers, late_writes=True)
    assert database.answers.count_documents({}) == sinks[0].done().rows
