from pathlib import Path

import pytest

from handlers.worker.request.schema import Fields
from handlers.worker.values import Instance
from marina.errors import SpecError
from marina.spec.texts import read_texts

ONE = Fields("text", "text_pair")
TWO = Fields("question", "context", second_required=True)


@pytest.mark.parametrize(
    ("name", "content", "fields", "expected"),
    [
        ("a.csv", 'text,label\nok,1\n"a, b",2\n', ONE, [Instance("ok"), Instance("a, b")]),
        ("a.csv", "text,text_pair\nok,fine\n", ONE, [Instance("ok", "fine")]),
        ("a.jsonl", '{"text": "ok"}\n\n{"text": "é", "text_pair": "b"}\n', ONE, [Instance("ok"), Instance("é", "b")]),
        ("a.jsonl", '{"question": "q", "context": "c"}', TWO, [Instance("q", "c")]),
        ("a.csv", "\ufefftext,text_pair\nok,fine\n", ONE, [Instance("ok", "fine")]),  # as Excel writes it
        ("a.jsonl", '\ufeff{"text": "ok"}\n', ONE, [Instance("ok")]),
    ],
)
def test_texts_are_read(tmp_path: Path, name: str, content: str, fields: Fields, expected: list[Instance]) -> None:
    (tmp_path / name).write_text(content)
    assert read_texts(tmp_path / name, fields, name) == expected


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("a.csv", "message\nok\n", ONE, "a.csv has no field 'text'; it needs text and text_pair"),
        ("a.jsonl", '{"question": "q"}', TWO, "has no field 'context'; it needs question and context"),
        ("a.jsonl", "{", ONE, "a.jsonl cannot be read"),
        ("a.jsonl", '{"text": 5}', ONE, r"text and text_pair \(for pairs\) must be texts"),
        ("a.jsonl", "5", ONE, r"a.jsonl cannot be read: every line must be an object with text and text_pair \(for"),
        ("a.jsonl", '{"question": "q", "context": "c"}\n["q", "c"]', TWO, "an object with question and context$"),
        ("a.jsonl", '"text"', Fields("text"), "an object with text$"),
        ("a.csv", "text\n", ONE, "a.csv holds no texts"),
        ("none.csv", None, ONE, "none.csv cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: str | None, fields: Fields, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SpecError, match=message):
        read_texts(tmp_path / name, fields, name)
