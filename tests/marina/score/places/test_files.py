"""Files as a source and as a sink."""

from __future__ import annotations

import errno
import json
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from marina.errors import MarinaError
from marina.files import naming_path
from marina.score.job import check_same
from marina.score.places.file_sink import FileSink
from marina.score.places.files import FileSource, open_files
from marina.score.shards import ShardEvent
from marina.score.values import Counts, Shard, Sink
from tests.marina.score.places.shard_life import EVENTS, SHARDS, check_life

TEXT = frozenset({"text"})
SCHEMA = pa.schema([("id", pa.int64())])
JOB = {"archive": "a", "source": {"in.csv": {"bytes": 10, "changed": "1"}}}


def write(path: Path, count: int, first: int = 0) -> None:
    path.write_text("id,text\n" + "".join(f"{first + n},text {n}\n" for n in range(count)))


def ids(source: FileSource, rows: int) -> list[Any]:
    """The ids of all rows, read shard by shard."""
    shards = source.shards(lambda _: rows)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(0 < shard.rows <= rows for shard in shards)
    return [value for shard in shards for value in source.read(shard).rows["id"].to_pylist()]


def test_rows_of_a_pattern_come_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", 250, 1000)
    write(tmp_path / "a.csv", 130)
    (tmp_path / ".hidden.csv").write_text("broken")
    (tmp_path / "notes.txt").write_text("no rows")
    source = open_files(f"{tmp_path}/*.csv", TEXT, None)
    assert source.rows() == 380
    expected = [str(n) for n in (*range(130), *range(1000, 1250))]
    assert ids(source, 100) == ids(source, 200) == ids(open_files(str(tmp_path), TEXT, None), 1000) == expected
    assert ids(open_files(f"{tmp_path}/*.csv", TEXT, 140), 100) == expected[:140]


def test_rows_are_read_by_url() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/in/a.jsonl", b'{"id": 1, "text": "x"}\n')
    memory.pipe("/in/b.jsonl", b'{"id": 2, "text": "y", "more": true}\n')
    source = open_files("memory://in/*.jsonl", TEXT, None)
    assert source.schema.names == ["id", "text", "more"]
    assert ids(source, 100) == [1, 2]


@pytest.mark.parametrize(
    ("names", "url", "message"),
    [
        ({}, "none.csv", "there is no file"),
        ({"a.csv": "id,text\n", "b.jsonl": "{}"}, "", "files of several formats; give files of one format"),
        ({"a.txt": "x"}, "a.txt", "has no format that its name tells"),
        ({"a.csv": "id,text\n", "b.csv": "id,body\n"}, "*.csv", "has other columns than"),
        ({"a.csv": "id,id\n"}, "a.csv", "is not csv: its first line must have a name for each column"),
        ({"a.parquet": "x"}, "a.parquet", "is not parquet"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, names: dict[str, str], url: str, message: str) -> None:
    for name, content in names.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(MarinaError, match=message):
        open_files(f"{tmp_path}/{url}", TEXT, None)
    with pytest.raises(MarinaError, match="cannot be opened"):
        open_files("nothing://x.csv", TEXT, None)


def test_a_change_of_a_file_shows_in_its_state(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 5)
    source = open_files(str(tmp_path / "a.csv"), TEXT, None)
    before = source.state()
    assert open_files(str(tmp_path / "a.csv"), TEXT, None).state() == before
    write(tmp_path / "a.csv", 6)
    after = open_files(str(tmp_path / "a.csv"), TEXT, None).state()
    with pytest.raises(MarinaError, match=r"a\.csv has changed while it was read"):
        source.read(source.shards(lambda _: 100)[0])
    with pytest.raises(MarinaError, match=r"the input has changed .*a\.csv: bytes: from \d+ to \d+; add --restart"):
        check_same({"source": before}, {"source": after}, "out")


def shards_of(count: int) -> list[Shard]:
    return [Shard(number, 2, {"start": number}) for number in range(count)]


def part(shard: Shard) -> pa.Table:
    return pa.table({"id": [2 * shard.number, 2 * shard.number + 1]}, SCHEMA)


def run_some(sink: FileSink, count: int) -> None:
    for _ in range(count):
        shard = sink.claim()
        assert shard is not None
        sink.writer.write(shard, part(shard), Counts(2, 1, 10, 20))
        sink.written(shard)


@contextmanager
def begun(url: Path | str, kind: str, job: dict[str, Any] = JOB) -> Iterator[tuple[FileSink, bool]]:
    """A sink with a job that begins, or goes on."""
    with closing(FileSink(str(url), kind)) as sink:
        yield sink, sink.begin(job, SCHEMA)


@pytest.fixture(params=["", "memory://"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield f"{request.param}{tmp_path}" if not request.param else "memory://out"
    if request.param:
        fsspec.filesystem("memory").rm("/out", recursive=True)


@pytest.mark.parametrize("name", ["answers.parquet", "answers"])
def test_a_job_goes_on_where_it_ended(place: str, name: str) -> None:
    url = f"{place}/{name}"
    with begun(url, "parquet") as (sink, before):
        assert not before
        sink.plan(shards_of(5))
        run_some(sink, 2)
    with begun(url, "parquet") as (sink, before):
        assert before
        assert sink.done() == Counts(4, 2, 20, 40)
        assert not sink.complete()
        run_some(sink, 3)
        assert sink.claim() is None
        assert sink.complete()
        sink.finish()
    with begun(url, "parquet") as (sink, before):
        assert before
        assert sink.complete()
        sink.finish()
    system, path = fsspec.core.url_to_fs(url)
    files = [path] if name.endswith(".parquet") else sorted(system.glob(f"{path}/*.parquet"))
    found = []
    for file in files:
        with system.open(file) as content:
            found += pq.read_table(content)["id"].to_pylist()
    assert found == list(range(10))
    assert not [one for one in system.find(place) if ".parts" in one or one.endswith(".tmp")]

    another = {**JOB, "archive": "b"}
    message = r"the archive has changed since the answers in .* were begun: from a to b"
    with pytest.raises(MarinaError, match=message), begun(url, "parquet", another):
        pass
    FileSink(url, "parquet").clear()
    with begun(url, "parquet", another) as (_, before):
        assert not before


@pytest.mark.parametrize("damaged", [b"", b"id\n0\n1\n2\n9\n"])
def test_a_finished_file_that_has_changed_is_refused(place: str, damaged: bytes) -> None:
    url = f"{place}/answers.csv"
    with begun(url, "csv") as (sink, _):
        sink.plan(shards_of(2))
        run_some(sink, 2)
        sink.finish()
    system, path = fsspec.core.url_to_fs(url)
    whole = system.cat_file(path)
    assert whole == b"id\n0\n1\n2\n3\n"
    system.pipe_file(path, damaged)
    message = r"answers\.csv has changed since its answers were written; add --restart"
    if damaged and place.startswith("memory"):  # elsewhere only the size is compared
        with begun(url, "csv") as (sink, before):
            assert before
    else:
        with pytest.raises(MarinaError, match=message), begun(url, "csv"):
            pass
    system.pipe_file(path, whole)
    with begun(url, "csv") as (sink, before):
        assert before
        assert sink.complete()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught, naming_path(tmp_path / "part"):
        raise OSError(errno.ENOSPC, "Error writing bytes to file")
    assert caught.value.filename == str(tmp_path / "part")


def test_a_damaged_part_is_written_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with begun(out, "csv") as (sink, _):
        sink.plan(shards_of(3))
        run_some(sink, 3)
    (out / "part-00001.csv").write_text("id\n7\n9\n")
    (out / "part-00002.csv").unlink()
    (out / ".part-00000.csv.1.tmp").write_text("half")
    with begun(out, "csv") as (sink, before):
        assert before
        assert not (out / ".part-00000.csv.1.tmp").exists()
        run_some(sink, 2)
        assert (out / "part-00001.csv").read_text() == "id\n2\n3\n"
        sink.finish()
    manifest = json.loads((out / "_marina" / "manifest.json").read_text())
    assert [one["rows"] for one in manifest["parts"]] == [2, 2, 2]


def test_what_is_there_already_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine")
    for url, message in (
        (tmp_path / "a.csv", r"a\.csv is there already; give another --output, or add --restart"),
        (tmp_path, r"holds other files, for example a\.csv"),
    ):
        with pytest.raises(MarinaError, match=message), begun(url, "csv"):
            pass
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    message = "another marina score is writing into"
    with begun(tmp_path / "out", "csv"), pytest.raises(MarinaError, match=message), begun(tmp_path / "out", "csv"):
        pass
    with begun(tmp_path / "out", "csv"):
        pass


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("marina.score.places.parts.sha256_of", full)
    (shard,) = shards_of(1)
    with begun(tmp_path / "out", "csv") as (sink, _):
        sink.plan(shards_of(1))
        with pytest.raises(OSError, match="No space left"):
            sink.writer.write(shard, part(shard), Counts())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_marina"]


def test_shards_can_become_smaller(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 1000)
    write(tmp_path / "b.csv", 450)
    shards = open_files(str(tmp_path), TEXT, None).shards(lambda left: max(100, left // 4))
    assert [shard.rows for shard in shards] == [300, 200, 200, 100, 100, 100, 100, 100, 100, 100, 50]


@settings(max_examples=50, deadline=None)
@given(EVENTS)
def test_shards_in_files_live_by_the_table(events: list[tuple[ShardEvent, int]]) -> None:
    answers = pa.table({"id": pa.array([1, 2], pa.int64())})
    with TemporaryDirectory() as folder, ExitStack() as stack:
        sinks: list[Sink] = []

        def opened() -> list[Sink]:
            """The sink of a process that goes on with the job, after the last one was killed."""
            stack.close()
            sink = stack.enter_context(closing(FileSink(f"{folder}/out", "parquet")))
            if not sink.begin(JOB, SCHEMA):
                sink.plan(SHARDS)
            sinks[:] = [sink]
            return sinks

        check_life(opened(), events, opened, lambda _: answers, late_writes=False)


def test_names_with_underscores_are_not_hidden(tmp_path: Path) -> None:
    for name in ("data.csv", "data1.csv", "data_2.csv", "_data.csv", ".data.csv"):
        write(tmp_path / name, 1)
    (tmp_path / "_marina").mkdir()
    write(tmp_path / "_marina" / "data.csv", 1)
    assert open_files(f"{tmp_path}/data*.csv", TEXT, None).rows() == 3
    assert open_files(f"{tmp_path}/*.csv", TEXT, None).rows() == 3
    assert open_files(f"{tmp_path}/**/*.csv", TEXT, None).rows() == 3
    assert open_files(str(tmp_path), TEXT, None).rows() == 3
    assert open_files(f"{tmp_path}/_data.csv", TEXT, None).rows() == 1
    assert open_files(f"{tmp_path}/_da*.csv", TEXT, None).rows() == 1


def test_rows_of_a_file_in_an_archive_are_read_in_other_processes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("t.csv", "id,text\n7,a\n")
    source = open_files(f"zip://t.csv::{tmp_path}/x.zip", TEXT, None)
    assert ids(pickle.loads(pickle.dumps(source)), 100) == ["7"]


def test_what_is_read_is_known_through_links(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a.csv", 1)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    source = open_files(f"{tmp_path}/in", TEXT, None)
    for output in ("in", "in/", "in/a.csv", "link", "link/a.csv", "in/../in/a.csv"):
        assert source.is_below(f"{tmp_path}/{output}")
    for output in ("in/b.csv", "in2", "i"):
        assert not source.is_below(f"{tmp_path}/{output}")
    assert not source.is_below("memory://in")
    with pytest.raises(MarinaError, match="nothing://x cannot be opened: "):
        source.is_below("nothing://x")


def test_columns_of_several_files_are_those_of_one(tmp_path: Path) -> None:
    lines = [{"text": "a", "price": 1, "n": None, "o": 1}, {"text": "b", "price": 1.5, "n": 7, "o": "x"}]
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    several, one = open_files(f"{tmp_path}/*.jsonl", TEXT, None), open_files(f"{tmp_path}/all", TEXT, None)
    assert several.schema.equals(one.schema, check_metadata=True)
    assert several.schema.field("n").type == pa.int64()
