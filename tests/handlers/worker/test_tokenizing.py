from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.parsing import Instance
from handlers.worker.tokenizing import Row, RowTokenizer


@pytest.fixture(scope="module")
def source(tiny_models: dict[str, Path]) -> Path:
    return tiny_models["text-classification"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80), st.none() | st.text(max_size=80))
def test_rows_are_those_of_transformers(source: Path, text: str, pair: str | None) -> None:
    reference = AutoTokenizer.from_pretrained(source)(text, pair, truncation=True, max_length=24)
    row = RowTokenizer(source / "tokenizer.json", 24, "truncate", "right").encode([Instance(text, pair)])[0]
    assert row == Row(reference["input_ids"], reference["token_type_ids"])


def test_a_text_that_is_too_long_is_refused_where_the_spec_says_so(source: Path) -> None:
    tokenizer = RowTokenizer(source / "tokenizer.json", 8, "reject", "right")
    short, long = tokenizer.encode([Instance("ok"), Instance("ok " * 7)])
    assert isinstance(short, Row)
    assert isinstance(long, RequestError)
    assert str(long) == "the text has 9 tokens; at most 8 are allowed"


def test_a_damaged_tokenizer_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        RowTokenizer(path, 8, "truncate", "right")
