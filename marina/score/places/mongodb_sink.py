"""Writes answers into a collection of MongoDB, and keeps there which shards are done.

Each answer has the `_id` of its document, or an `_id` from its place in the input, and writing it again changes
nothing. So no answer is missing or there twice, but while a shard is written, some of its answers can be seen.
"""

from __future__ import annotations

import uuid
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
from marina.score.formats.values import json_text, values_of
from marina.score.job import check_same, shards_from
from marina.score.places.database import CLAIM_S, Disconnected, answers_removed_error, claimant, name_of, retried
from marina.score.places.mongodb import KEY, opened
from marina.score.values import Counts, Shard

JOBS, SHARDS = "marina_jobs", "marina_shards"
NUMBERED = r"^\d{5,}-\d{5,}$"  # the `_id` of answers to rows that have none


@dataclass(frozen=True)
class CollectionWriter:
    """Writes answers into a collection; see `Writer`."""

    url: str
    collection: str

    @retried
    def write(self, shard: Shard, answers: pa.Table, counts: Counts) -> None:
        columns = []
        for field, column in zip(answers.schema, answers.columns, strict=True):
            values = list(map(_storable, values_of(column)))
            if is_json(field):
                values = [None if value is None else orjson.loads(value) for value in values]
            columns.append(values)
        documents = [dict(zip(answers.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
        numbered = [number for number, document in enumerate(documents) if document.get(KEY) is None]
        for number in numbered:
            documents[number][KEY] = f"{shard.number:05d}-{number:05d}"
        with opened(self.url, self.collection) as collection:
            writes = [ReplaceOne({KEY: document[KEY]}, document, upsert=True) for document in documents]
            if writes:
                collection.bulk_write(writes, ordered=False)
            done = {"$set": {"done": True, "counts": counts._asdict()}}
            jobs = collection.database[JOBS]
            if numbered:
                jobs.update_one({KEY: self.collection}, {"$set": {"numbered": True}})
            job = jobs.find_one({KEY: self.collection}) or {}
            shard_id = _shard_id(self.collection, job.get("plan"), shard.number)
            collection.database[SHARDS].update_one({KEY: shard_id}, done)


def _shard_id(job: str, plan: str | None, number: int) -> str:
    """The `_id` of a shard; jobs that an older release began have no plan."""
    return f"{job} {plan} {number}" if plan else f"{job} {number}"


def _storable(value: Any) -> Any:
    """A value as MongoDB stores it: arrays are lists, and what it has not, such as dates without a time, texts."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list):
        return list(map(_storable, value))
    if value is None or isinstance(value, (bool, int, float, str, bytes, datetime, dict)):
        return value
    return json_text(value).strip('"')


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
        self._shards: dict[str, Any] = {"job": collection, "plan": None}

    def begin(self, description: Mapping[str, Json], schema: pa.Schema) -> bool:
        new_job = {
            KEY: self._collection,
            "description": _description_text(description),
            "shards": None,
        }
        with opened(self._url, JOBS) as jobs:
            with suppress(DuplicateKeyError):
                jobs.insert_one(new_job)
            stored_job: Any = jobs.find_one({KEY: self._collection})
        check_same(orjson.loads(stored_job["description"]), description, self.name)
        self._shards["plan"] = stored_job.get("plan")
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
        plan = uuid.uuid4().hex  # of several processes that plan at once, the first that ends gives the plan
        free = {"job": self._collection, "plan": plan, "done": False, "claimed_until": _now()}
        documents = [
            {
                **free,
                KEY: _shard_id(self._collection, plan, shard.number),
                "number": shard.number,
                "shard": orjson.dumps(shard._asdict()).decode(),
            }
            for shard in shards
        ]
        with opened(self._url, SHARDS) as collection:
            if documents:
                collection.insert_many(documents)
            jobs = collection.database[JOBS]
            jobs.update_one({KEY: self._collection, "shards": None}, {"$set": {"shards": len(documents), "plan": plan}})
            job: Any = jobs.find_one({KEY: self._collection})
            self._shards["plan"] = job.get("plan")
            collection.delete_many({"job": self._collection, "plan": {"$ne": self._shards["plan"]}})

    @retried
    def claim(self) -> Shard | None:
        free_shards = {**self._shards, "done": False, "claimed_until": {"$lte": _now()}}
        claim_update = {"$set": {"claimed_by": self._claimant, "claimed_until": _now(CLAIM_S)}}
        with opened(self._url, SHARDS) as shards:
            document = shards.find_one_and_update(free_shards, claim_update, sort=[("number", 1)])
        return shards_from([orjson.loads(document["shard"])])[0] if document else None

    def release(self, shard: Shard) -> None:
        with suppress(Disconnected), opened(self._url, SHARDS) as shards:  # a claim ends by itself
            shard_id = _shard_id(self._collection, self._shards["plan"], shard.number)
            claim = {KEY: shard_id, "claimed_by": self._claimant}
            shards.update_one(claim, {"$set": {"claimed_until": _now()}})

    @retried
    def renew(self) -> None:
        with opened(self._url, SHARDS) as shards:
            claims = {**self._shards, "claimed_by": self._claimant, "done": False}
            shards.update_many(claims, {"$set": {"claimed_until": _now(CLAIM_S)}})

    def written(self, shard: Shard) -> None:
        """There is nothing to note: the writer has marked the shard."""

    def done(self) -> Counts:
        with opened(self._url, SHARDS) as shards:
            done_counts = [document["counts"] for document in shards.find({**self._shards, "done": True})]
        return Counts.total(done_counts)

    @retried
    def complete(self) -> bool:
        with opened(self._url, SHARDS) as shards:
            return shards.find_one({**self._shards, "done": False}) is None

    def finish(self) -> None:
        """There is nothing to do."""

    def clear(self) -> None:
        with opened(self._url, SHARDS) as shards:
            job = shards.database[JOBS].find_one_and_delete({KEY: self._collection})
            shards.delete_many({"job": self._collection})
            if job and job.get("numbered"):
                shards.database[self._collection].delete_many({KEY: {"$regex": NUMBERED}})

    def close(self) -> None:
        """There is nothing to give back: claims end by themselves."""


def _now(later_s: float = 0) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=later_s)


def _description_text(description: Mapping[str, Json]) -> str:
    """A description as text, since names of fields may have dots, which MongoDB takes for paths."""
    return orjson.dumps(description).decode()
