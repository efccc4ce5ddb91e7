import json
from collections import Counter
from pathlib import Path

import pytest

from handlers.worker.request.schema import Fields
from handlers.worker.values import Instance
from marina.errors import SpecError
from marina.shapes.lengths import MAX_LENGTHS, expand_histogram, read_lengths

FIELDS = Fields("text")


def words(instances: list[Instance]) -> list[int]:
    return [len(instance.text.split()) for instance in instances]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "text\na b\nc\n", [2, 1]),
        ("a.jsonl", '{"text": "a b c"}\n{"text": "d"}', [3, 1]),
        ("a.csv", "tokens\n7\n9\n", [7, 9]),
        ("a.jsonl", '{"tokens": 7}\n{"tokens": 9}\n', [7, 9]),
        ("a.json", '{"3": 1, "5": 2}', [3, 5, 5]),
    ],
)
def test_lengths_are_read(tmp_path: Path, name: str, content: str, expected: list[int]) -> None:
    (tmp_path / name).write_text(content)
    assert sorted(read_lengths(tmp_path / name, FIELDS, words)) == sorted(expected)


def test_both_halves_of_a_histogram_are_alike(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"10": 4000, "20": 2_000_000, "30": 800_000}))
    lengths = read_lengths(tmp_path / "a.json", FIELDS, words)
    assert len(lengths) <= MAX_LENGTHS
    for half in (lengths[0::2], lengths[1::2]):
        counts = Counter(half)
        assert counts[20] / len(half) == pytest.approx(2_000 / 2_804, abs=0.01)
        assert counts[30] / len(half) == pytest.approx(800 / 2_804, abs=0.01)


def test_as_many_lengths_are_kept_as_are_wanted(tmp_path: Path) -> None:
    assert MAX_LENGTHS - 2 <= len(expand_histogram({10: 4000, 20: 2_000_000})) <= MAX_LENGTHS
    (tmp_path / "a.csv").write_text("text\n" + "a b\n" * MAX_LENGTHS)
    assert read_lengths(tmp_path / "a.csv", FIELDS, words) == [2] * MAX_LENGTHS


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "[1, 2]"),
        ("a.json", '{"a": 1}'),
        ("a.json", '{"3": -1}'),
        ("a.json", "{}"),
        ("a.json", '{"0": 5}'),
        ("a.csv", "tokens\n7\n"),
        ("a.csv", "tokens\nx\n"),
        ("a.csv", "message\nok\n"),
        ("a.jsonl", "not json"),
        ("a.jsonl", '{"tokens": null}\n'),
        ("a.jsonl", '{"tokens": 5}\n{"text": "a b"}\n'),
        ("a.jsonl", '{"tokens": 5}\n{"tokens": 1e999}\n'),
        ("a.json", '{"12": Infinity}'),
        ("none.csv", None),
    ],
)
def test_what_holds_no_lengths_is_refused(tmp_path: Path, name: str, content: str | None) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SpecError, match=name):
        read_lengths(tmp_path / name, FIELDS, words)
