"""Files: local ones, and those of any file system that fsspec knows, such as s3://."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from fsspec.core import url_to_fs

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.answers import JSON
from marina.score.formats import FORMATS, format_of
from marina.score.formats.scan import Piece, ShardSize, cut
from marina.score.values import Read, Shard, selected

# the names of the time or hash that changes with the contents of a file, in all file systems
CHANGE_FIELDS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")


class File(NamedTuple):
    """A file of a source: its URL, its facts, and its rows in small pieces."""

    url: str
    facts: Mapping[str, Json]
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class FileSource:
    """Rows of one or more files of one format; see `RowSource`.

    text_columns are the columns that must hold texts.
    """

    name: str
    schema: pa.Schema
    format: str
    text_columns: frozenset[str]
    files: Sequence[File]
    key: None = None

    def select(self, columns: frozenset[str]) -> FileSource:
        return replace(self, schema=selected(self.schema, columns))

    def rows(self) -> int:
        return sum(piece.rows for file in self.files for piece in file.pieces)

    def shards(self, shard_size: ShardSize) -> list[Shard]:
        shards: list[Shard] = []
        left = self.rows()
        for file in self.files:
            for start, end, rows in cut(file.pieces, shard_size, left):
                shards.append(Shard(len(shards), rows, {"file": file.url, "start": start, "end": end}))
                left -= rows
        return shards

    def read(self, shard: Shard) -> Read:
        url, piece = shard.place["file"], Piece(shard.place["start"], shard.place["end"], shard.rows)
        system, path = url_to_fs(url)
        expected_facts = next(file.facts for file in self.files if file.url == url)
        if facts_of(system.info(path)) != expected_facts:
            raise MarinaError(f"{url} has changed while it was read", "add --restart to answer everything again")
        with system.open(path, "rb") as file:
            return FORMATS[self.format].read(file, piece, self.schema, self.text_columns)

    def state(self) -> dict[str, Json]:
        return {file.url: dict(file.facts) for file in self.files}


def open_files(url: str, text_columns: frozenset[str], max_rows: int | None) -> FileSource:
    """Find the files of a source and their rows.

    Args:
        url: a file, a folder, or a pattern with * in it; a path or a URL.
        text_columns: the columns that must hold texts.
        max_rows: only this many rows; None for all.

    Raises:
        MarinaError: there is no such file, its format is unknown or damaged, or files have different columns.
    """
    system, paths = _find_files(url)
    kinds = {path: format_of(path) for path in paths}
    data_paths = [path for path in paths if kinds[path]] if len(paths) > 1 else paths
    formats = {kinds[path] for path in data_paths}
    if len(formats) != 1 or None in formats:
        suffixes = ", ".join(suffix for file_format in FORMATS.values() for suffix in file_format.SUFFIXES)
        reason = "has files of several formats" if len(formats) > 1 else "has no format that its name tells"
        raise MarinaError(f"{url} {reason}", f"give files of one format: {suffixes}")
    (kind,) = (file_format for file_format in formats if file_format)
    files, schemas, left = [], {}, max_rows
    for path in data_paths:
        file_url = system.unstrip_protocol(path)
        try:
            with system.open(path, "rb") as file:
                scan = FORMATS[kind].scan(file, text_columns, left)
        except ValueError as error:
            raise MarinaError(f"{file_url} is not {kind}: {error}") from None
        schemas[file_url] = scan.schema
        files.append(File(file_url, facts_of(system.info(path)), scan.pieces))
        if left is not None:
            left -= scan.rows
            if left <= 0:
                break
    return FileSource(url, _common_schema(schemas, kind), kind, text_columns, files)


def _find_files(url: str) -> tuple[Any, list[str]]:
    """The file system of a URL, and the paths of its files in order, without hidden ones."""
    try:
        system, path = url_to_fs(url)
        if "*" in path or "?" in path:
            paths = system.glob(path)
        elif system.isdir(path):
            paths = system.find(path)
        else:
            paths = [path] if system.exists(path) else []
    except (ImportError, ValueError) as error:
        raise MarinaError(f"{url} cannot be opened: {error}") from None
    base = path.partition("*")[0]
    visible = sorted(
        candidate
        for candidate in paths
        if not any(part[:1] in "._" for part in candidate[len(base) :].split("/") if part)
    )
    if not visible:
        raise MarinaError(f"there is no file {url}")
    return system, visible


def facts_of(info: Mapping[str, Any]) -> dict[str, Json]:
    """Facts that identify the contents of a file: its size, and its hash or the time of its last change."""
    changed = next((str(info[name]) for name in CHANGE_FIELDS if info.get(name)), "")
    return {"bytes": info.get("size"), "changed": changed}


def _common_schema(schemas: Mapping[str, pa.Schema], kind: str) -> pa.Schema:
    """The columns of all files."""
    (first, schema), *others = schemas.items()
    if kind == "jsonl" and others:
        return _merged_schema(list(schemas.values()))
    for url, other in others:
        if not other.equals(schema):
            extra = next((field for field in other if field not in list(schema)), None)
            difference = f"{extra.name} ({extra.type})" if extra else ", ".join(other.names)
            raise MarinaError(f"{url} has other columns than {first}: {difference}", "score them one by one")
    return schema


def _merged_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of several JSON Lines files; one that has several types becomes JSON."""
    fields: dict[str, pa.Field] = {}
    for field in (field for schema in schemas for field in schema):
        existing = fields.get(field.name, field)
        same = existing.equals(field, check_metadata=True)
        fields[field.name] = existing if same else pa.field(field.name, pa.string(), metadata=JSON)
    return pa.schema(list(fields.values()))
