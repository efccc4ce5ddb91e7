"""Rows from what a preprocessing module returns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlers.worker.errors import ArtifactError
from handlers.worker.tokens.preprocess import Preprocessor, rows_of
from handlers.worker.tokens.tokenizer import Tokenized, Window
from handlers.worker.values import Instance
from tests.handlers.worker.tokens.encoding import encode

MASK = [[1, 1, 0], [1, 1, 1]]
IDS = [[5, 6, 0], [7, 8, 9]]


def test_a_row_ends_where_its_mask_does() -> None:
    weights = np.array([0.5, 2.0])
    first, second = rows_of({"input_ids": np.array(IDS), "attention_mask": np.array(MASK), "weight": weights})
    assert first.tensors == {"input_ids": [5, 6], "attention_mask": [1, 1], "weight": 0.5}
    assert second.tensors == {"input_ids": [7, 8, 9], "attention_mask": [1, 1, 1], "weight": 2.0}
    assert (first.ids, first.type_ids, first.prompt_tokens) == ([5, 6], [0, 0], 0)
    assert isinstance(first.tensors["weight"], float)


def test_without_a_mask_a_row_ends_after_its_valid_length_or_nowhere() -> None:
    ids = np.array(IDS)
    assert [row.ids for row in rows_of({"input_ids": ids, "valid_length": np.array([1, 3])})] == [[5], [7, 8, 9]]
    assert [row.ids for row in rows_of({"input_ids": ids})] == IDS
    # the mask is what counts
    both = {"input_ids": ids, "attention_mask": np.array(MASK), "valid_length": np.array([1, 1])}
    assert [row.ids for row in rows_of(both)] == [[5, 6], [7, 8, 9]]


def test_inputs_of_other_names_have_as_many_tokens() -> None:
    (row,) = rows_of({"words": np.array([[4, 5, 6]])})
    assert (row.ids, row.type_ids) == ([0, 0, 0], [0, 0, 0])
    assert row.tensors == {"words": [4, 5, 6]}


def test_an_empty_text_has_no_tokens() -> None:
    (row,) = rows_of({"input_ids": np.array([[1, 2]]), "attention_mask": np.array([[0, 0]])})
    assert row.ids == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros((1, 2, 3))}, "a has 3 dimensions; it must have one, or two"),
        ({"a": np.array(1)}, "a has 0 dimensions"),
        ({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}, r"2\] rows of \[3, 4\] tokens; they must be as many"),
        ({"a": np.zeros((2, 3)), "b": np.zeros(3)}, r"\[2, 3\] rows of \[3\] tokens"),
        ({"a": np.zeros(2)}, r"\[2\] rows of \[\] tokens"),
        ({"attention_mask": np.array([[0, 1]])}, "attention_mask has zeros before ones; padding must come last"),
        ({"attention_mask": np.array([[1, 0, 1]])}, "padding must come last"),
    ],
)
def test_tensors_that_are_no_rows_are_refused(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(arrays)


SINGLE = """
def forward(self, text: str) -> Tuple[Tensor, Tensor]:
    if text == "broken":
        raise RuntimeError("a secret text")
    ids = torch.arange(1, len(text) + 1)
    return ids, torch.ones_like(ids)
"""
SEVERAL = """
def forward(self, texts: List[str], others: List[str]) -> Dict[str, Tensor]:
    ids = torch.zeros([len(texts), 8], dtype=torch.long)
    mask = torch.zeros([len(texts), 8], dtype=torch.long)
    for i, text in enumerate(texts):
        if text == "broken":
            raise RuntimeError("a secret text")
        for j in range(len(text) + len(others[i])):
            ids[i, j] = j + 1
            mask[i, j] = 1
    return {"attention_mask": mask, "unused": mask, "input_ids": ids}
"""
WRONG = "def forward(self, texts: List[str], number: int) -> Tensor:\n    return torch.zeros(number)\n"
WINDOW = Window(6, "truncate")
NUMBERS = itertools.count()


@pytest.fixture
def preprocessor(tmp_path: Path) -> Callable[[str], Preprocessor]:
    """Makes a preprocessor with this code, for inputs input_ids and attention_mask."""
    import torch

    def make(code: str) -> Preprocessor:
        # each code has a class of its own
        module = type(f"Module{next(NUMBERS)}", (torch.jit.ScriptModule,), {})()
        module.define(code)
        module.save(str(tmp_path / "module.pt"))
        return Preprocessor(tmp_path / "module.pt", ["input_ids", "attention_mask"])

    return make


def encoded(preprocessor: Preprocessor, *instances: Instance) -> list[Any]:
    """The ids of each instance, or the type and message of its error."""
    found = encode(preprocessor, instances, [WINDOW] * len(instances))
    return [one.rows[0].ids if isinstance(one, Tokenized) else (one.kind, str(one)) for one in found]


def test_single_texts_are_stacked(preprocessor: Callable[[str], Preprocessor]) -> None:
    made = preprocessor(SINGLE)
    assert made.arguments == ["str"]
    arrays = made.run([Instance("abc"), Instance("a")])
    assert arrays["input_ids"].tolist() == [[1, 2, 3], [1, 0, 0]]
    assert arrays["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert encoded(made, Instance("abc"), Instance("a"), Instance("abc")) == [[1, 2, 3], [1], [1, 2, 3]]


def test_all_texts_are_given_at_once(preprocessor: Callable[[str], Preprocessor]) -> None:
    made = preprocessor(SEVERAL)
    assert made.arguments == ["List[str]", "List[str]"]
    assert list(made.run([Instance("a", "b")])) == ["input_ids", "attention_mask"]
    assert encoded(made, Instance("ab", "c"), Instance("", "c")) == [[1, 2, 3], [1]]
    assert encoded(made) == []


@pytest.mark.parametrize(("code", "second"), [(SINGLE, None), (SEVERAL, "")])
def test_what_cannot_be_read_is_refused_alone_and_its_text_is_not_logged(
    preprocessor: Callable[[str], Preprocessor], caplog: pytest.LogCaptureFixture, code: str, second: str | None
) -> None:
    made = preprocessor(code)
    good, broken, empty, long = (Instance(text, second) for text in ("ab", "broken", "", "abcdefg"))
    assert encoded(made, good, broken, empty, long) == [
        [1, 2],
        ("InvalidText", "the preprocessing module cannot read the text"),
        ("NoTokens", "the text has no tokens"),
        ("TextTooLong", "the preprocessing module makes 7 tokens; at most 6 are allowed"),
    ]
    assert encoded(made, Instance("abcdef", second)) == [[1, 2, 3, 4, 5, 6]]
    assert "the preprocessing module failed with" in caplog.text
    assert "secret" not in caplog.text


def test_a_file_that_is_no_such_module_is_refused(preprocessor: Callable[[str], Preprocessor], tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"takes List\[str\], int; its forward must take texts"):
        preprocessor(WRONG)
    with pytest.raises(ArtifactError, match="takes nothing; its forward"):
        preprocessor("def forward(self) -> Tensor:\n    return torch.zeros(1)\n")
    (tmp_path / "other.pt").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"other\.pt cannot be loaded: "):
        Preprocessor(tmp_path / "other.pt", [])
