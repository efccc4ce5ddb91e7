"""MongoDB as a source and as a sink, on mongomock in place of a server."""

from __future__ import annotations

import datetime
from typing import Any

import mongomock.store
import orjson
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


def test_one_plan_holds_however_many_processes_plan(database: Any) -> None:
    """One that was killed while it planned, and two that plan at once with other sizes."""
    killed, one, two = (MongoSink(URL, "answers") for _ in range(3))
    for sink in (killed, one, two):
        assert not sink.begin(JOB, SCHEMA)
    database.marina_shards.insert_one({"_id": "answers 0", "job": "answers", "number": 0, "done": False})
    database.marina_shards.insert_one({"_id": "answers x 9", "job": "answers", "plan": "x", "number": 9, "done": False})
    one.plan(SHARDS)
    two.plan([Shard(number, 1, {"first": number}) for number in range(8)])
    assert database.marina_shards.count_documents({}) == len(SHARDS)
    claimed = []
    for sink in (two, one, two, one):
        shard = sink.claim()
        assert shard
        claimed.append(shard)
        sink.writer.write(
            shard, pa.table({"_id": [f"{shard.number}a"], "label": ["x"], "entities": [None]}, SCHEMA), Counts(2)
        )
    assert claimed == SHARDS
    assert one.complete()
    assert two.complete()


def test_a_job_of_an_older_release_goes_on(database: Any) -> None:
    sink = MongoSink(URL, "answers")
    sink.begin(JOB, SCHEMA)
    shard = {"number": 0, "rows": 1, "place": {"first": 0}}
    document = {"_id": "answers 0", "job": "answers", "number": 0, "shard": orjson.dumps(shard).decode()}
    database.marina_shards.insert_one({**document, "done": False, "claimed_until": datetime.datetime(2026, 1, 2)})
    database.marina_jobs.update_one({"_id": "answers"}, {"$set": {"shards": 1}})
    again = MongoSink(URL, "answers")
    assert again.begin(JOB, SCHEMA)
    claimed = again.claim()
    assert claimed == Shard(**shard)  # type: ignore[arg-type]
    again.release(claimed)
    assert again.claim() == claimed
    again.writer.write(claimed, pa.table({"_id": ["a"], "label": ["x"], "entities": [None]}, SCHEMA), Counts(1))
    assert again.complete()


def test_values_that_mongodb_has_not_are_stored(database: Any) -> None:
    vectors = pa.array([[[0.5, 1.0]], None], pa.list_(pa.list_(pa.float32())))
    dates = pa.array([datetime.date(2026, 1, 2), None])
    times = pa.array([datetime.time(1, 2, 3), None])
    sink = MongoSink(URL, "answers")
    table = pa.table({"vectors": vectors, "date": dates, "time": times})
    sink.begin(JOB, table.schema)
    sink.plan([Shard(0, 2, {})])
    sink.writer.write(Shard(0, 2, {}), table, Counts(2))
    assert list(database.answers.find({}, {"_id": 0})) == [
        {"vectors": [[0.5, 1.0]], "date": "2026-01-02", "time": "01:02:03"},
        {"vectors": None, "date": None, "time": None},
    ]


def test_a_new_beginning_leaves_no_answer_of_before(database: Any) -> None:
    schema = pa.schema([("label", pa.string())])
    for sizes in ([2, 2], [3]):
        sink = MongoSink(URL, "answers")
        sink.clear()
        sink.begin(JOB, schema)
        shards = [Shard(number, rows, {}) for number, rows in enumerate(sizes)]
        sink.plan(shards)
        for shard in shards:
            sink.writer.write(shard, pa.table({"label": ["x"] * shard.rows}, schema), Counts(shard.rows))
        assert database.answers.count_documents({}) == sum(sizes)
    database.answers.insert_one({"_id": "a document of the user"})
    sink.clear()
    assert database.answers.count_documents({}) == 1


def test_ids_that_cannot_be_compared_are_refused(database: Any) -> None:
    database.resumes.insert_many([{"_id": 1}, {"_id": 2.5}])
    assert open_source(Input(url=URL, table="resumes"), frozenset(), None).rows() == 2
    database.resumes.insert_one({"_id": "a"})
    with pytest.raises(MarinaError, match=r"hr resumes has values of _id of different types, number and str; select"):
        open_source(Input(url=URL, table="resumes"), frozenset(), None)


def test_rows_without_an_id_are_named_by_their_place(database: Any) -> None:
    sink = MongoSink(URL, "answers")
    sink.begin(JOB, SCHEMA)
    sink.plan([Shard(0, 4, {})])
    ids = ["a", None, None, "b"]
    table = pa.table({"_id": ids, "label": ["x"] * 4, "entities": [None] * 4}, SCHEMA)
    sink.writer.write(Shard(0, 4, {}), table, Counts(4))
    assert database.answers.count_documents({}) == 4
    assert MongoSink(URL, "answers").begin(JOB, SCHEMA)
    sink.clear()
    assert database.answers.count_documents({}) == 2
