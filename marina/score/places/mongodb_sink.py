"""Writes answers into a collection of MongoDB, and keeps there which shards are done.

Each answer has the `_id` of its document, or an `_id` from its place in the input, and writing it again changes
nothing. So no answer is missing or there twice, but while a shard is written, some of its answers can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import orjson
import pyarrow as pa
from pymongo import ReplaceOne
from pymongo.errors import DuplicateKeyError

from handlers.worker.values import Json
from marina.score.answers import is_json
from marina.score.formats.values import values_of
from marina.score.job import check_same, shards_from
from marina.score.places.database import CLAIM_S, Disconnected, answers_removed_error, claimant, name_of, retry
from marina.score.places.mongodb import KEY, opened
from marina.score.values import Counts, Shard

JOBS, SHARDS = "marina_jobs", "marina_shards"


@dataclass(frozen=True)
class CollectionWriter:
    """Writes answers into a collection; see `Writer`."""

    url: str
    collection: str

    def write(self, shard: Shard, answers: pa.Table, counts: Counts) -> None:
        columns = []
        for field, column in zip(answers.schema, answers.columns, strict=True):
            values = [value.tolist() if hasattr(value, "tolist") else value for value in values_of(column)]
            if is_json(field):
                values = [None if value is None else orjson.loads(value) for value in values]
            columns.append(values)
        documents = [dict(zip(answers.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
        for number, document in enumerate(documents):
            document.setdefault(KEY, f"{shard.number:05d}-{number:05d}")
        retry(lambda: self._write(shard, documents, counts))

    def _write(self, shard: Shard, documents: Sequence[dict[str, Any]], counts: Counts) -> None:
        with opened(self.url, self.collection) as collection:
            writes = [ReplaceOne({KEY: document[KEY]}, document, upsert=True) for document in documents]
            if writes:
                collection.bulk_write(writes, ordered=False)
            done = {"$set": {"done": True, "counts": counts._asdict()}}
            collection.database[SHARDS].update_one({KEY: _shard_id(self.collection, shard)}, done)


def _shard_id(job: str, shard: Shard) -> str:
    return f"{job} {shard.number}"


class MongoSink:
    """Answers in a collection; see `Sink`.

    Args:
        url: of the database, with its name at the end.
        collection: the collection, which is also the name of the job.
    """

    def __init__(self, url: str, collection: str) -> None:
        self.name = f"{name_of(url)} {collection}"
        self.writer = CollectionWriter(url, collection)
        self._url, self._collection = url, collection
        self._claimant = claimant()

    def begin(self, description: Mapping[str, Json], schema: pa.Schema) -> bool:
        new_job = {KEY: self._collection, "description": _description_text(description), "shards": None}
        with opened(self._url, JOBS) as jobs:
            with suppress(DuplicateKeyError):
                jobs.insert_one(new_job)
            stored_job: Any = jobs.find_one({KEY: self._collection})
        check_same(orjson.loads(stored_job["description"]), description, self.name)
        self._check_answers()
        return stored_job["shards"] is not None

    def _check_answers(self) -> None:
        """MarinaError if the answers of shards that are done are not there."""
        written = self.done().rows
        with opened(self._url, self._collection) as answers:
            present = answers.count_documents({}) if written else 0
        if present < written:
            raise answers_removed_error(self.name, written, present)

    def plan(self, shards: Sequence[Shard]) -> None:
        with opened(self._url, SHARDS) as collection:
            job = {"job": self._collection, "done": False, "claimed_until": _now()}
            for shard in shards:
                shard_document = {**job, "number": shard.number, "shard": orjson.dumps(shard._asdict()).decode()}
                collection.update_one(
                    {KEY: _shard_id(self._collection, shard)}, {"$setOnInsert": shard_document}, upsert=True
                )
            planned = {"$set": {"shards": len(shards)}}
            collection.database[JOBS].update_one({KEY: self._collection, "shards": None}, planned)

    def claim(self) -> Shard | None:
        free_shards = {"job": self._collection, "done": False, "claimed_until": {"$lte": _now()}}
        claim_update = {"$set": {"claimed_by": self._claimant, "claimed_until": _now(CLAIM_S)}}

        def work() -> Shard | None:
            with opened(self._url, SHARDS) as shards:
                document = shards.find_one_and_update(free_shards, claim_update, sort=[("number", 1)])
            return shards_from([orjson.loads(document["shard"])])[0] if document else None

        return retry(work)

    def release(self, shard: Shard) -> None:
        with suppress(Disconnected), opened(self._url, SHARDS) as shards:  # a claim ends by itself
            claim = {KEY: _shard_id(self._collection, shard), "claimed_by": self._claimant}
            shards.update_one(claim, {"$set": {"claimed_until": _now()}})

    def renew(self) -> None:
        def work() -> None:
            with opened(self._url, SHARDS) as shards:
                claims = {"job": self._collection, "claimed_by": self._claimant, "done": False}
                shards.update_many(claims, {"$set": {"claimed_until": _now(CLAIM_S)}})

        retry(work)

    def written(self, shard: Shard) -> None:
        """There is nothing to note: the writer has marked the shard."""

    def done(self) -> Counts:
        with opened(self._url, SHARDS) as shards:
            done_counts = [document["counts"] for document in shards.find({"job": self._collection, "done": True})]
        return Counts.total(done_counts)

    def complete(self) -> bool:
        def work() -> bool:
            with opened(self._url, SHARDS) as shards:
                return shards.find_one({"job": self._collection, "done": False}) is None

        return retry(work)

    def finish(self) -> None:
        """There is nothing to do."""

    def clear(self) -> None:
        with opened(self._url, SHARDS) as shards:
            shards.delete_many({"job": self._collection})
            shards.database[JOBS].delete_one({KEY: self._collection})

    def close(self) -> None:
        """There is nothing to give back: claims end by themselves."""


def _now(later_s: float = 0) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=later_s)


def _description_text(description: Mapping[str, Json]) -> str:
    """A description as text, since names of fields may have dots, which MongoDB takes for paths."""
    return orjson.dumps(description).decode()
