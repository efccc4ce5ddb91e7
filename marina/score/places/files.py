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
from marina.score.formats.scan import Piece, Size, cut
from marina.score.values import Read, Shard, selected

# what file systems call the time or the hash that changes with the contents of a file
CHANGES = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")


class File(NamedTuple):
    """A file of a source: its URL, its facts, and its rows in small pieces."""

    url: str
    facts: Mapping[str, Json]
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class FileSource:
    """Rows of one or more files of one format; see `Source`.

    texts are the columns that must hold texts.
    """

    name: str
    schema: pa.Schema
    format: str
    texts: frozenset[str]
    files: Sequence[File]
    key: None = None

    def select(self, columns: frozenset[str]) -> FileSource:
        return replace(self, schema=selected(self.schema, columns))

    def rows(self) -> int:
        return sum(piece.rows for file in self.files for piece in file.pieces)

    def shards(self, size: Size) -> list[Shard]:
        shards: list[Shard] = []
        left = self.rows()
        for file in self.files:
            for start, end, rows in cut(file.pieces, size, left):
                shards.append(Shard(len(shards), rows, {"file": file.url, "start": start, "end": end}))
                left -= rows
        return shards

    def read(self, shard: Shard) -> Read:
        url, piece = shard.place["file"], Piece(shard.place["start"], shard.place["end"], shard.rows)
        system, path = url_to_fs(url)
        known = next(file.facts for file in self.files if file.url == url)
        if facts_of(system.info(path)) != known:
            raise MarinaError(f"{url} has changed while it was read", "add --restart to answer everything again")
        with system.open(path, "rb") as file:
            return FORMATS[self.format].read(file, piece, self.schema, self.texts)

    def state(self) -> dict[str, Json]:
        return {file.url: dict(file.facts) for file in self.files}


def open_files(url: str, texts: frozenset[str], most: int | None) -> FileSource:
    """Find the files of a source and their rows.

    Args:
        url: a file, a folder, or a pattern with * in it; a path or a URL.
        texts: the columns that must hold texts.
        most: only this many rows; None for all.

    Raises:
        MarinaError: there is no such file, its format is unknown or damaged, or files have different columns.
    """
    system, paths = _found(url)
    kinds = {path: format_of(path) for path in paths}
    names = [path for path in paths if kinds[path]] if len(paths) > 1 else paths
    formats = {kinds[path] for path in names}
    if len(formats) != 1 or None in formats:
        known = ", ".join(suffix for one in FORMATS.values() for suffix in one.SUFFIXES)
        what = "has files of several formats" if len(formats) > 1 else "has no format that its name tells"
        raise MarinaError(f"{url} {what}", f"give files of one format: {known}")
    (kind,) = (one for one in formats if one)
    files, schemas, left = [], {}, most
    for path in names:
        own = system.unstrip_protocol(path)
        try:
            with system.open(path, "rb") as file:
                scan = FORMATS[kind].scan(file, texts, left)
        except ValueError as error:
            raise MarinaError(f"{own} is not {kind}: {error}") from None
        schemas[own] = scan.schema
        files.append(File(own, facts_of(system.info(path)), scan.pieces))
        if left is not None:
            left -= scan.rows
            if left <= 0:
                break
    return FileSource(url, _common(schemas, kind), kind, texts, files)


def _found(url: str) -> tuple[Any, list[str]]:
    """The file system of a URL, and the paths of its files in order, without hidden ones."""
    try:
        system, path = url_to_fs(url)
        if "*" in path or "?" in path:
            found = system.glob(path)
        elif system.isdir(path):
            found = system.find(path)
        else:
            found = [path] if system.exists(path) else []
    except (ImportError, ValueError) as error:
        raise MarinaError(f"{url} cannot be opened: {error}") from None
    base = path.partition("*")[0]
    shown = sorted(one for one in found if not any(part[:1] in "._" for part in one[len(base) :].split("/") if part))
    if not shown:
        raise MarinaError(f"there is no file {url}")
    return system, shown


def facts_of(info: Mapping[str, Any]) -> dict[str, Json]:
    """What identifies the contents of a file: its size, and its hash or the time of its last change."""
    changed = next((str(info[name]) for name in CHANGES if info.get(name)), "")
    return {"bytes": info.get("size"), "changed": changed}


def _common(schemas: Mapping[str, pa.Schema], kind: str) -> pa.Schema:
    """The columns of all files."""
    (first, schema), *others = schemas.items()
    if kind == "jsonl" and others:
        return _merged(list(schemas.values()))
    for url, other in others:
        if not other.equals(schema):
            different = next((one for one in other if one not in list(schema)), None)
            what = f"{different.name} ({different.type})" if different else ", ".join(other.names)
            raise MarinaError(f"{url} has other columns than {first}: {what}", "score them one by one")
    return schema


def _merged(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of several JSON Lines files; one that has several types becomes JSON."""
    fields: dict[str, pa.Field] = {}
    for field in (field for schema in schemas for field in schema):
        known = fields.get(field.name, field)
        same = known.equals(field, check_metadata=True)
        fields[field.name] = known if same else pa.field(field.name, pa.string(), metadata=JSON)
    return pa.schema(list(fields.values()))
