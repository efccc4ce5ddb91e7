"""Files: local ones, and those of any file system that fsspec knows, such as s3://."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.score.formats import FORMATS, format_of
from marina.score.formats.json_lines import Kinds
from marina.score.formats.scan import Piece, Scan, ShardSize, cut
from marina.score.values import Read, Shard, selected

# the names of the time or hash that changes with the contents of a file, in all file systems
CHANGE_FIELDS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")

HIDDEN = re.compile(r"/[._]")


class File(NamedTuple):
    """A file of a source: its name for people and shards, its path, its facts, and its rows in small pieces."""

    url: str
    path: str
    facts: Mapping[str, Json]
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class FileSource:
    """Rows of one or more files of one format; see `RowSource`.

    text_columns are the columns that must hold texts. system is the file system with its host, which the URLs of files
    lack.
    """

    name: str
    schema: pa.Schema
    format: str
    text_columns: frozenset[str]
    files: Sequence[File]
    system: AbstractFileSystem
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
        path, expected_facts = next((file.path, file.facts) for file in self.files if file.url == url)
        if facts_of(self.system.info(path)) != expected_facts:
            raise MarinaError(f"{url} has changed while it was read", "add --restart to answer everything again")
        with self.system.open(path, "rb") as file:
            return FORMATS[self.format].read(file, piece, self.schema, self.text_columns)

    def is_below(self, url: str) -> bool:
        """Whether a file of the source is at a URL of files, or in a folder there."""
        system, path = located(url)
        if system != self.system:
            return False
        output, *inputs = [_real(system, name).rstrip("/") for name in (path, *(file.path for file in self.files))]
        return any(name == output or name.startswith(f"{output}/") for name in inputs)

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
    files, scans, left = [], {}, max_rows
    for path in data_paths:
        file_url = system.unstrip_protocol(path)
        try:
            with system.open(path, "rb") as file:
                scan = FORMATS[kind].scan(file, text_columns, left)
        except ValueError as error:
            raise MarinaError(f"{file_url} is not {kind}: {error}") from None
        scans[file_url] = scan
        files.append(File(file_url, path, facts_of(system.info(path)), scan.pieces))
        if left is not None:
            left -= scan.rows
            if left <= 0:
                break
    return FileSource(url, _common_schema(scans, text_columns), kind, text_columns, files, system)


def _real(system: AbstractFileSystem, path: str) -> str:
    """A path without links."""
    return os.path.realpath(path) if isinstance(system, LocalFileSystem) else path


def located(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL, and the path there; MarinaError if there is no such file system."""
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise MarinaError(f"{url} cannot be opened: {error}") from None
    return system, path


def _find_files(url: str) -> tuple[AbstractFileSystem, list[str]]:
    """The file system of a URL, and the paths of its files in order, without hidden ones."""
    system, path = located(url)
    if "*" in path or "?" in path:
        paths = system.glob(path)
    elif system.isdir(path):
        paths = system.find(path)
    else:
        paths = [path] if system.exists(path) else []
    start = max(0, len(path.partition("*")[0]) - 1)  # names that the URL spells out are not hidden
    visible = sorted(candidate for candidate in paths if not HIDDEN.search(candidate, start))
    if not visible:
        raise MarinaError(f"there is no file {url}")
    return system, visible


def facts_of(info: Mapping[str, Any]) -> dict[str, Json]:
    """Facts that identify the contents of a file: its size, and its hash or the time of its last change."""
    changed = next((str(info[name]) for name in CHANGE_FIELDS if info.get(name)), "")
    return {"bytes": info.get("size"), "changed": changed}


def _common_schema(scans: Mapping[str, Scan], text_columns: frozenset[str]) -> pa.Schema:
    """The columns of all files; of formats whose rows differ, those of one file with all rows."""
    (first, scan), *others = scans.items()
    schema = scan.schema
    if scan.kinds is not None:
        return Kinds.merged([scan.kinds for scan in scans.values()]).schema(text_columns)
    for url, other_scan in others:
        other = other_scan.schema
        if not other.equals(schema):
            extra = next((field for field in other if field not in list(schema)), None)
            difference = f"{extra.name} ({extra.type})" if extra else ", ".join(other.names)
            raise MarinaError(f"{url} has other columns than {first}: {difference}", "score them one by one")
    return schema
