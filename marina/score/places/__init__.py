"""Places that hold rows or answers, one module each. Rows of any place can be answered into any other.

Enters: a URL. Leaves: shards of rows, and a sink that knows which are done. Not known here: models.

The scheme of a URL decides the place; a URL without the scheme of a database is a path or URL of files.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from marina.errors import MarinaError
from marina.score.places.database import name_of
from marina.score.places.file_sink import FileSink
from marina.score.places.files import open_files
from marina.score.spec import Input, Output
from marina.score.values import RowSource, Sink

POSTGRES = ("postgresql", "postgres")
MONGODB = ("mongodb", "mongodb+srv")


def is_file_url(url: str) -> bool:
    """Whether a URL is of files, and not of a database."""
    return urlsplit(url).scheme not in POSTGRES + MONGODB


def open_source(place: Input, text_columns: frozenset[str], max_rows: int | None) -> RowSource:
    """Find the rows of a place.

    Args:
        place: the place of the rows.
        text_columns: the columns that must hold texts, if they are there.
        max_rows: only this many rows; None for all.

    Raises:
        MarinaError: there are no such rows, or they cannot be read.
    """
    scheme = urlsplit(place.url).scheme
    if scheme in POSTGRES:
        from marina.score.places.postgres import open_postgres

        return open_postgres(place.url, place.table, place.query, place.key, max_rows)
    if scheme in MONGODB:
        from marina.score.places.mongodb import open_mongodb

        return open_mongodb(place.url, place.table, place.query, text_columns, max_rows)
    database_option = next((name for name in ("table", "query", "key") if getattr(place, name)), None)
    if database_option:
        raise MarinaError(f"--{database_option} is for databases, and {place.url} is none")
    return open_files(place.url, text_columns, max_rows)


def open_sink(place: Output, key: str | None) -> Sink:
    """Open the sink of a place for answers.

    Args:
        place: the place for the answers.
        key: the column of the input that tells rows apart, if it is a database.

    Raises:
        MarinaError: it cannot be reached, or no table is named.
    """
    scheme = urlsplit(place.url).scheme
    if scheme in POSTGRES + MONGODB and not place.table:
        raise MarinaError(f"{name_of(place.url)} is a database; name the table for the answers with --to")
    if place.table and scheme in POSTGRES:
        from marina.score.places.postgres_sink import PostgresSink

        return PostgresSink(place.url, place.table, key)
    if place.table and scheme in MONGODB:
        from marina.score.places.mongodb_sink import MongoSink

        return MongoSink(place.url, place.table)
    if place.table:
        raise MarinaError(f"--to is for databases, and {place.url} is none")
    return FileSink(place.url, place.format)
