"""Rows come back as they were written, whatever is in them, and broken rows stop nothing."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.errors import MarinaError
from marina.score.answers import JSON, is_json
from marina.score.formats import FORMATS, format_of
from marina.score.formats.csv_rows import CSV
from marina.score.formats.scan import STEP
from marina.score.formats.values import values_of
from marina.score.values import selected

TEXT = frozenset({"text"})
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
rows = st.lists(st.tuples(texts, texts), max_size=250)


def read_all(kind: str, content: bytes, most: int | None = None) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """All rows of a file, read piece by piece, and the messages of those that could not be read."""
    scan = FORMATS[kind].scan(io.BytesIO(content), TEXT, most)
    found: list[dict[str, Any]] = []
    unread: dict[int, str] = {}
    for piece in scan.pieces:
        assert piece.rows <= STEP
        read = FORMATS[kind].read(io.BytesIO(content), piece, scan.schema, TEXT)
        assert len(read.rows) == piece.rows
        unread.update({len(found) + number: str(error) for number, error in read.unread.items()})
        found += read.rows.to_pylist()
    return found, unread


@given(rows, st.sampled_from(sorted(FORMATS)))
def test_rows_come_back(given_rows: list[tuple[str, str]], kind: str) -> None:
    table = pa.table({"text": [one for one, _ in given_rows], "other": [two for _, two in given_rows]})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        FORMATS[kind].write(table.cast(pa.schema([("text", pa.string()), ("other", pa.string())])), path)
        content = path.read_bytes()
    found, unread = read_all(kind, content)
    assert not unread
    assert [(row["text"], row["other"]) for row in found] == given_rows


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_parts_join_to_one_file(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])
    parts = []
    for number in range(3):
        part = pa.table({"text": [f"{number} one", f'{number} "two"\n'], "vector": [[1.5, number], None]}, schema)
        FORMATS[kind].write(part, tmp_path / f"{number}")
        parts.append(tmp_path / f"{number}")
    FORMATS[kind].join(parts, tmp_path / "whole", schema)
    found, unread = read_all(kind, (tmp_path / "whole").read_bytes())
    assert not unread
    assert [row["text"] for row in found] == [f"{n} {text}" for n in range(3) for text in ("one", '"two"\n')]
    assert len(found) == 6


def test_broken_rows_of_csv_have_an_error() -> None:
    content = b'\xef\xbb\xbfid,text\n1,good\n2\n\n3,"a\nb",c\n4,\xff\n5,last'
    found, unread = read_all("csv", content)
    assert [row["id"] for row in found] == ["1", "2", "3", "4", "5"]
    assert [row["text"] for row in found] == ["good", None, "a\nb", "\ufffd", "last"]
    assert unread == {
        1: "the row has 1 fields, and not 2",
        2: "the row has 3 fields, and not 2",
        3: "the row is not UTF-8",
    }


@pytest.mark.parametrize("content", [b"", b"a,a\n1,2\n", b"\n1,2"])
def test_csv_without_names_of_columns_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="its first line must have a name for each column"):
        CSV.scan(io.BytesIO(content), TEXT, None)


def test_broken_lines_of_json_have_an_error() -> None:
    lines = [b'{"text": "good", "n": 1}', b"{", b"", b"[1]", b'{"text": 3, "n": 2.5}', b'{"n": null}']
    found, unread = read_all("jsonl", b"\n".join(lines))
    assert [row["text"] for row in found] == ["good", None, None, None, None]
    assert [row["n"] for row in found] == ["1", None, None, "2.5", None]
    assert unread == {
        1: "the line is not valid JSON",
        2: "the line must be an object, not a list",
        3: 'the field "text" must be a text, not a number',
    }


def test_values_of_several_kinds_are_carried_as_json() -> None:
    content = b'{"a": 1, "b": {"c": [1]}}\n{"a": "x", "b": null}\n{"a": 99999999999999999999, "b": true}'
    scan = FORMATS["jsonl"].scan(io.BytesIO(content), TEXT, None)
    assert all(is_json(field) for field in scan.schema)
    (piece,) = scan.pieces
    rows = FORMATS["jsonl"].read(io.BytesIO(content), piece, scan.schema, TEXT).rows
    assert rows["a"].to_pylist()[:2] == ["1", '"x"']
    assert rows["b"].to_pylist() == ['{"c":[1]}', None, "true"]


numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**12), 10**12, places=12).map(str),
    st.sampled_from(
        ["9007199254740993", "1.5", "123456789012345678901234567890", "0.10000000000000001", "true", '"x"']
    ),
)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_numbers_come_out_as_they_went_in(values: list[object]) -> None:
    content = "".join(f'{{"id": {value}, "text": "x"}}\n' for value in values).encode()
    scan = FORMATS["jsonl"].scan(io.BytesIO(content), TEXT, None)
    read = FORMATS["jsonl"].read(io.BytesIO(content), scan.pieces[0], scan.schema, TEXT)
    assert not read.unread
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        FORMATS["jsonl"].write(read.rows, path)
        written = path.read_text().splitlines()
    for value, line in zip(values, written, strict=True):
        given_value, came = (json.loads(text, parse_float=Decimal)["id"] for text in (f'{{"id": {value}}}', line))
        assert type(came) is type(given_value)
        # 0.10000000000000001 and 0.1 are the same 64-bit float
        assert came == given_value or (float(came) == float(given_value) and f"{float(came):.17g}" == str(given_value))


def test_whole_numbers_and_fractions_are_floats_where_a_format_has_types(tmp_path: Path) -> None:
    content = b'{"a": 2, "b": 9007199254740993}\n{"a": 1.5, "b": 1.5}\n'
    scan = FORMATS["jsonl"].scan(io.BytesIO(content), TEXT, None)
    rows = FORMATS["jsonl"].read(io.BytesIO(content), scan.pieces[0], scan.schema, TEXT).rows
    FORMATS["parquet"].write(rows, tmp_path / "part")
    FORMATS["parquet"].join([tmp_path / "part"], tmp_path / "whole", rows.schema)
    for path in (tmp_path / "part", tmp_path / "whole"):
        assert pq.read_table(path).to_pydict() == {"a": [2.0, 1.5], "b": ["9007199254740993", "1.5"]}
    FORMATS["csv"].write(rows, tmp_path / "csv")
    assert (tmp_path / "csv").read_text() == "a,b\n2,9007199254740993\n1.5,1.5\n"
    FORMATS["jsonl"].write(rows, tmp_path / "jsonl")
    assert (tmp_path / "jsonl").read_text() == '{"a":2,"b":9007199254740993}\n{"a":1.5,"b":1.5}\n'


def test_texts_of_parquet_that_are_not_utf8_have_an_error(tmp_path: Path) -> None:
    texts = pa.array([b"good", b"\xff", None, b"last"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 1, 2]), pa.array([b"\xfe", b"x"]).view(pa.string()))
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "text": texts, "tags": lists}), tmp_path / "f.parquet")
    content = (tmp_path / "f.parquet").read_bytes()
    found, unread = read_all("parquet", content)
    assert [row["id"] for row in found] == [1, 2, 3, 4]
    assert [row["text"] for row in found] == ["good", None, None, "last"]
    assert [row["tags"] for row in found] == [None, [], [], ["x"]]
    assert unread == {
        0: 'the column "tags" holds a text that is not UTF-8',
        1: 'the column "text" holds a text that is not UTF-8',
    }


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_what_is_not_needed_keeps_no_row_from_being_read(tmp_path: Path, kind: str) -> None:
    content = b"bad,text\n\xff,good\n" if kind == "csv" else b'{"bad": 1e3, "text": "good"}\n'
    if kind == "parquet":
        bad = pa.array([b"\xff"]).view(pa.string())
        pq.write_table(pa.table({"bad": bad, "text": ["good"], "more": [1]}), tmp_path / "f")
        content = (tmp_path / "f").read_bytes()
    scan = FORMATS[kind].scan(io.BytesIO(content), TEXT, None)
    read = FORMATS[kind].read(io.BytesIO(content), scan.pieces[0], selected(scan.schema, TEXT), TEXT)
    assert read.rows.to_pylist() == [{"text": "good"}]
    assert not read.unread


def test_json_columns_are_json_in_json_lines(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("entities", pa.string(), metadata=JSON), pa.field("text", pa.string())])
    FORMATS["jsonl"].write(pa.table({"entities": ['[{"a":1}]', None], "text": ["x", None]}, schema), tmp_path / "f")
    assert (tmp_path / "f").read_text() == '{"entities":[{"a":1}],"text":"x"}\n{"entities":null,"text":null}\n'


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_limit_is_kept(tmp_path: Path, kind: str) -> None:
    FORMATS[kind].write(pa.table({"text": [str(n) for n in range(333)]}), tmp_path / "rows")
    content = (tmp_path / "rows").read_bytes()
    assert [row["text"] for row in read_all(kind, content, 150)[0]] == [str(n) for n in range(150)]


def test_rows_of_many_groups_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [str(n) for n in range(1000)]}), tmp_path / "f.parquet", row_group_size=90)
    content = (tmp_path / "f.parquet").read_bytes()
    scan = FORMATS["parquet"].scan(io.BytesIO(content), TEXT, None)
    for start, end in ((0, 1000), (89, 91), (85, 350), (999, 1000)):
        piece = scan.pieces[0]._replace(start=start, end=end, rows=end - start)
        read = FORMATS["parquet"].read(io.BytesIO(content), piece, scan.schema, TEXT)
        assert read.rows["text"].to_pylist() == [str(n) for n in range(start, end)]


def test_a_file_that_is_no_parquet_is_refused() -> None:
    with pytest.raises(ValueError, match="Parquet"):
        FORMATS["parquet"].scan(io.BytesIO(b"no parquet at all"), TEXT, None)


def test_formats_are_known_by_their_suffix() -> None:
    assert [format_of(name) for name in ("a.PARQUET", "b.csv", "c.tsv", "d.ndjson", "e.txt", "f")] == [
        "parquet",
        "csv",
        "tsv",
        "jsonl",
        None,
        None,
    ]
    with pytest.raises(MarinaError, match="compressed as a whole"):
        format_of("a.csv.gz")


def test_a_row_that_is_no_csv_stops_no_other() -> None:
    found, unread = read_all("csv", b"id,text\n1,ok\n2,a\rb\n3,ok\n")
    assert [row["id"] for row in found] == ["1", None, "3"]
    assert unread == {1: "the row is not CSV"}


def test_json_lines_may_begin_with_a_byte_order_mark() -> None:
    found, unread = read_all("jsonl", b'\xef\xbb\xbf{"text": "a", "n": 123456789012345678901}\n{"text": "b"}\n')
    assert [row["text"] for row in found] == ["a", "b"]
    assert not unread


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")], ids=str
)
def test_times_have_microseconds_whether_pandas_is_there_or_not(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([1_700_000_001, None], pa.int64()).cast(kind)])
    first, second = values_of(column)
    assert type(first).__module__ == "datetime"
    assert second is None
