"""Writes answers into a folder, a file per shard, or into one file, which is joined from such a folder at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from handlers.worker.values import Json
from marina.errors import MarinaError
from marina.files import locked
from marina.score.formats import FORMATS, format_of
from marina.score.job import check_same, shards_from
from marina.score.places.files import located
from marina.score.places.parts import JOB, LOCK, MANIFEST, RECORDS, Folder, PartWriter, facts_of, record_name
from marina.score.values import Counts, Shard


class FileSink:
    """Answers in a folder or a file; see `Sink`.

    Args:
        url: a folder, or a file whose suffix is that of a format.
        folder_format: the format of the files of a folder.
    """

    def __init__(self, url: str, folder_format: str) -> None:
        self.name = url
        file_format = format_of(url)
        system, path = located(url)
        parent, _, name = path.rstrip("/").rpartition("/")
        self._file = name if file_format else None
        self._parent = Folder(system, parent or "/")
        self._folder = Folder(system, f"{parent}/.{name}.parts" if file_format else path)
        self.writer = PartWriter(self._folder, file_format or folder_format)
        self._schema = pa.schema([])
        self._description: Mapping[str, Json] = {}
        self._shards: list[Shard] = []
        self._unclaimed: list[Shard] = []
        self._records: dict[int, dict[str, Json]] = {}
        self._lock = ExitStack()

    def begin(self, description: Mapping[str, Json], schema: pa.Schema) -> bool:
        self._description, self._schema = description, schema
        if self._file and self._parent.exists(self._file):
            manifest = self._parent.read(self._manifest)
            if manifest is None:
                raise MarinaError(f"{self.name} is there already", "give another --output, or add --restart")
            check_same(manifest["job"], description, self.name)
            if not self._parent.is_whole({"file": self._file, **manifest}):
                raise MarinaError(
                    f"{self.name} has changed since its answers were written",
                    "add --restart to answer everything again",
                )
            self._shards = shards_from(manifest["shards"])
            self._records = dict(enumerate(manifest["parts"]))
            return True
        other_files = [name for name in self._folder.names() if name != RECORDS]
        if other_files and not self._folder.exists(f"{RECORDS}/{JOB}"):
            raise MarinaError(f"{self.name} holds other files, for example {other_files[0]}", "give another --output")
        self._lock_folder()
        self._parent.clean(f".{self._file}.*.tmp")
        stored = self._folder.read(f"{RECORDS}/{JOB}")
        if stored is None:
            return False
        check_same(stored["job"], description, self.name)
        self._shards = shards_from(stored["shards"])
        self._records = self._folder.intact(self._shards)
        self._unclaimed = [shard for shard in self._shards if shard.number not in self._records]
        return True

    def plan(self, shards: Sequence[Shard]) -> None:
        self._folder.write(
            f"{RECORDS}/{JOB}", {"job": self._description, "shards": [shard._asdict() for shard in shards]}
        )
        self._shards, self._unclaimed = list(shards), list(shards)

    def claim(self) -> Shard | None:
        return self._unclaimed.pop(0) if self._unclaimed else None

    def release(self, shard: Shard) -> None:
        self._unclaimed.insert(0, shard)

    def renew(self) -> None:
        """There is nothing to renew: nobody else can write here."""

    def written(self, shard: Shard) -> None:
        self._records[shard.number] = self._folder.read(record_name(shard))

    def done(self) -> Counts:
        return Counts.total(self._records.values())

    def complete(self) -> bool:
        return len(self._records) == len(self._shards)

    def finish(self) -> None:
        if self._file and self._parent.exists(self._file):
            self._folder.remove()
            return
        parts = [self._records[shard.number] for shard in self._shards]
        manifest = {"job": self._description, "shards": [shard._asdict() for shard in self._shards], "parts": parts}
        if not self._file:
            self._folder.write(f"{RECORDS}/{MANIFEST}", manifest)
            return
        with self._parent.writing(self._file) as path, TemporaryDirectory(prefix="marina-score-") as temp_folder:
            local_parts = [self._folder.fetch(part["file"], Path(temp_folder)) for part in parts]
            FORMATS[self.writer.format].join(local_parts, path, self._schema)
            self._parent.write(self._manifest, {**manifest, **facts_of(path)})
        self._folder.remove()

    def clear(self) -> None:
        if self._file:
            self._lock_folder()
            self._parent.remove(self._file)
            self._parent.remove(self._manifest)
            self._folder.remove()
        elif self._folder.exists(f"{RECORDS}/{JOB}"):
            self._lock_folder()
            for name in self._folder.names():
                if name == RECORDS or name.startswith("part-"):
                    self._folder.remove(name)
        self.close()

    def close(self) -> None:
        self._lock.close()

    @property
    def _manifest(self) -> str:
        """The name of the manifest beside the file."""
        return f"{self._file}.{MANIFEST}"

    def _lock_folder(self) -> None:
        """Keep other processes on this machine from writing here."""
        self._folder.make(RECORDS)
        if not self._folder.local:
            return
        try:
            self._lock.enter_context(locked(Path(self._folder.path(f"{RECORDS}/{LOCK}")), wait_s=0))
        except BlockingIOError:
            raise MarinaError(f"another marina score is writing into {self.name}; wait until it ends") from None
