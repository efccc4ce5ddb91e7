"""MongoDB: documents of a collection, in the order of `_id`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pymongo
from bson import Decimal128, json_util
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, ConfigurationError, PyMongoError

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.formats.json_lines import Kinds, read_objects
from marina.score.formats.scan import STEP, ShardSize
from marina.score.places.database import Disconnected, first_line, key_shards, name_of, retried
from marina.score.values import Read, Shard, selected

KEY = "_id"
SERVER_TIMEOUT_MS = 10_000


@contextmanager
def opened(url: str, collection: str) -> Iterator[Collection[Any]]:
    """A collection; MarinaError for any error of the database."""
    try:
        with pymongo.MongoClient[Any](url, serverSelectionTimeoutMS=SERVER_TIMEOUT_MS) as client:
            yield client.get_default_database()[collection]
    except ConfigurationError as error:
        raise MarinaError(f"{name_of(url)}: {first_line(error)}", "name the database at the end of the URL") from None
    except AutoReconnect as error:
        raise Disconnected(f"{name_of(url)} cannot be reached: {first_line(error)}") from None
    except PyMongoError as error:
        raise MarinaError(f"{name_of(url)}: {first_line(error)}") from None


@dataclass(frozen=True)
class MongoSource:
    """Documents of a collection; see `RowSource`.

    filter selects them, as JSON. text_columns are the fields that must hold texts. pieces have the first and the last
    `_id` and the number of some documents each, as MongoDB writes them in JSON.
    """

    url: str
    collection: str
    name: str
    schema: pa.Schema
    filter: str
    text_columns: frozenset[str]
    checksum: str
    pieces: Sequence[tuple[Json, Json, int]]
    key: str = KEY

    def select(self, columns: frozenset[str]) -> MongoSource:
        return replace(self, schema=selected(self.schema, columns))

    def rows(self) -> int:
        return sum(rows for _, _, rows in self.pieces)

    def shards(self, shard_size: ShardSize) -> list[Shard]:
        return key_shards(self.pieces, shard_size)

    @retried
    def read(self, shard: Shard) -> Read:
        first, last = (json_util.loads(json.dumps(shard.place[name])) for name in ("first", "last"))
        query = {"$and": [json_util.loads(self.filter), {KEY: {"$gte": first, "$lte": last}}]}
        with opened(self.url, self.collection) as collection:
            documents = [plain(document) for document in collection.find(query).sort(KEY)]
        if len(documents) != shard.rows:
            raise MarinaError(
                f"{self.name} has changed while it was read: {len(documents)} documents, and not {shard.rows}",
                "add --restart to answer everything again",
            )
        return read_objects(documents, self.schema, self.text_columns)

    def state(self) -> dict[str, Json]:
        return {self.name: {"filter": self.filter, "rows": self.rows(), "checksum": self.checksum}}


def open_mongodb(
    url: str, collection: str | None, query: str | None, text_columns: frozenset[str], max_rows: int | None
) -> MongoSource:
    """Find the documents of a collection.

    Args:
        url: of the database, with its name at the end.
        collection: the collection.
        query: a filter, as JSON; None for all documents.
        text_columns: the fields that must hold texts.
        max_rows: only this many documents; None for all.

    Raises:
        MarinaError: the database cannot be reached, the filter is not JSON, or values of `_id` cannot be compared.
    """
    if collection is None:
        raise MarinaError(f"{name_of(url)} is a database", "name a collection with --table")
    try:
        parsed_query = json_util.loads(query or "{}")
    except ValueError:
        raise MarinaError('--query is not JSON; write a filter such as {"lang": "en"}') from None
    name = f"{name_of(url)} {collection}"
    kinds, digest = Kinds(), hashlib.sha256()
    key_kind: str | None = None
    pieces: list[tuple[Json, Json, int]] = []
    with opened(url, collection) as documents:
        cursor = documents.find(parsed_query).sort(KEY)
        for document in cursor.limit(max_rows) if max_rows is not None else cursor:
            digest.update(json_util.dumps(document).encode())
            kinds.add(plain(document))
            key_kind, previous_kind = _kind_of(document[KEY]), key_kind
            if previous_kind not in (None, key_kind):  # MongoDB compares values of one type only
                raise MarinaError(
                    f"{name} has values of {KEY} of different types, {previous_kind} and {key_kind}",
                    'select those of one type with --query, for example {"_id": {"$type": "objectId"}}',
                )
            document_key = json.loads(json_util.dumps(document[KEY]))
            if pieces and pieces[-1][2] < STEP:
                first, _, rows = pieces.pop()
                pieces.append((first, document_key, rows + 1))
            else:
                pieces.append((document_key, document_key, 1))
    schema = kinds.schema(text_columns)
    return MongoSource(url, collection, name, schema, query or "{}", text_columns, digest.hexdigest()[:16], pieces)


def _kind_of(key: Any) -> str:
    """The type of an `_id`; MongoDB compares numbers of different types."""
    is_number = isinstance(key, (int, float, Decimal128)) and not isinstance(key, bool)
    return "number" if is_number else type(key).__name__


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with values of JSON: times are in ISO format, and other values that JSON has not are texts."""
    return {name: _plain(value) for name, value in document.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, (str, bool, int, float)) or value is None else str(value)
