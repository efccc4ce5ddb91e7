"""A folder of answers: a file per shard, and records of their contents.

part-00000.parquet    the answers of a shard, renamed into place when it is whole
_marina/job.json      the description of the job, and all shards
_marina/part-00000.json   the record of a part: rows, errors, bytes, sha256; written after the part
_marina/manifest.json     the description, all shards and all records; written at the end
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from handlers.worker.archive.artifact import sha256_of
from handlers.worker.values import Json
from marina.files import naming_path
from marina.score.formats import FORMATS
from marina.score.values import Counts, Shard

RECORDS = "_marina"
JOB, MANIFEST, LOCK = "job.json", "manifest.json", "lock"


@dataclass(frozen=True)
class Folder:
    """A folder of any file system, in which whole files appear at once."""

    system: AbstractFileSystem
    root: str

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self.system, LocalFileSystem)

    def path(self, name: str = "") -> str:
        """The path of a file in it, or its own."""
        root = self.root.rstrip("/")
        return f"{root}/{name}" if name else root

    def make(self, name: str) -> None:
        """Make a folder in it."""
        self.system.makedirs(self.path(name), exist_ok=True)

    def exists(self, name: str) -> bool:
        """Whether a file is in it."""
        return bool(self.system.exists(self.path(name)))

    def names(self, name: str = "") -> list[str]:
        """The names of the files in it or in a folder of it, without hidden ones; none if there is no such folder."""
        try:
            entries = self.system.ls(self.path(name), detail=False)
        except FileNotFoundError:
            return []
        base_names = (str(entry).rstrip("/").rpartition("/")[2] for entry in entries)
        return sorted(base_name for base_name in base_names if not base_name.startswith("."))

    def remove(self, name: str = "") -> None:
        """Remove a file or folder in it, or itself, if it is there."""
        with suppress(FileNotFoundError):
            self.system.rm(self.path(name), recursive=True)

    def fetch(self, name: str, folder: Path) -> Path:
        """A local path of a file; if it is not on this machine, a copy in a folder."""
        if self.local:
            return Path(self.path(name))
        self.system.get_file(self.path(name), str(folder / name))
        return folder / name

    def read(self, name: str) -> Any:
        """The JSON document in a file; None if there is none."""
        try:
            return json.loads(self.system.cat_file(self.path(name)))
        except FileNotFoundError:
            return None

    def clean(self, pattern: str) -> None:
        """Remove the files of writes that were killed, if the folder is on this machine."""
        for path in Path(self.path()).glob(pattern) if self.local else ():
            path.unlink(missing_ok=True)

    def intact(self, shards: Sequence[Shard]) -> dict[int, dict[str, Json]]:
        """The records of the shards whose parts are whole, by number; files of unfinished writes are removed."""
        self.clean(".*.tmp")
        self.clean(f"{RECORDS}/.*.tmp")
        present = set(self.names(RECORDS))
        records = {}
        for shard in shards:
            record = self.read(record_name(shard)) if record_name(shard).rpartition("/")[2] in present else None
            if record and self.is_whole(record):
                records[shard.number] = record
        return records

    def is_whole(self, record: Mapping[str, Json]) -> bool:
        """Whether a file is as its record says: its size, and its sha256 where that is quick to compute."""
        try:
            size = self.system.info(self.path(record["file"]))["size"]
        except FileNotFoundError:
            return False
        return bool(
            size == record["bytes"]
            and (not self.local or sha256_of(Path(self.path(record["file"]))) == record["sha256"])
        )

    def write(self, name: str, document: Json) -> None:
        """Write a JSON document."""
        with self.writing(name) as path:
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local path to write a file to, which then gets its name here; it does not if writing it fails."""
        system, target = self.system, self.path(name)
        if not self.local:
            with TemporaryDirectory(prefix="marina-score-") as temp_folder:
                path = Path(temp_folder) / Path(target).name
                with naming_path(path):
                    yield path
                system.put_file(str(path), target)  # object stores show an object only when it is whole
            return
        partial = Path(target).with_name(f".{Path(target).name}.{os.getpid()}.tmp")
        try:
            with naming_path(partial):
                yield partial
            with partial.open("rb") as file:
                os.fsync(file.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class PartWriter:
    """Writes the parts of a folder; see `Writer`."""

    folder: Folder
    format: str

    def write(self, shard: Shard, answers: pa.Table, counts: Counts) -> None:
        name = part_name(shard, self.format)
        with self.folder.writing(name) as path:
            FORMATS[self.format].write(answers, path)
            facts = facts_of(path)
        self.folder.write(record_name(shard), {"file": name, **counts._asdict(), **facts})


def part_name(shard: Shard, kind: str) -> str:
    """The name of the file with the answers of a shard."""
    return f"part-{shard.number:05d}{FORMATS[kind].SUFFIXES[0]}"


def record_name(shard: Shard) -> str:
    """The name of the record of a part."""
    return f"{RECORDS}/part-{shard.number:05d}.json"


def facts_of(path: Path) -> dict[str, Json]:
    """The size and sha256 of a whole file, which `is_whole` compares."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
