from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.tokens.tokenizer import RowTokenizer, Text, Tokenized, Window
from handlers.worker.values import Instance, Row
from tests.conftest import WORDS
from tests.handlers.worker.tasks.architectures import save_model
from tests.handlers.worker.tokens.encoding import encode

texts = st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
in_any_project = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def source(tiny_models: dict[str, Path]) -> Path:
    return tiny_models["text-classification"]


def tokenizer(source: Path) -> RowTokenizer:
    return RowTokenizer(source / "tokenizer.json", "right")


@in_any_project
@given(texts, st.none() | texts)
def test_rows_are_those_of_transformers(source: Path, text: str, pair: str | None) -> None:
    reference = AutoTokenizer.from_pretrained(source)(text, pair, truncation=True, max_length=24)
    (tokenized,) = encode(tokenizer(source), [Instance(text, pair)], [Window(24, "truncate")])
    assert isinstance(tokenized, Tokenized)
    assert tokenized.rows == [Row(reference["input_ids"], reference["token_type_ids"])]
    whole = AutoTokenizer.from_pretrained(source)(text, pair)
    assert tokenized.truncated == (len(whole["input_ids"]) > 24)


@in_any_project
@given(st.sampled_from(WORDS), texts, st.integers(8, 30), st.integers(0, 20))
def test_windows_are_those_of_transformers(source: Path, question: str, context: str, length: int, stride: int) -> None:
    (tokenized,) = encode(
        tokenizer(source),
        [Instance(question, context or "ok")],
        [Window(length, "window", stride, strategy="only_second")],
    )
    if isinstance(tokenized, RequestError):
        assert "must have room for more" in str(tokenized)
        return
    reference = AutoTokenizer.from_pretrained(source)(
        question,
        context or "ok",
        truncation="only_second",
        max_length=length,
        stride=min(stride, length - 6),
        return_overflowing_tokens=True,
    )
    if stride <= length - 6:
        assert [row.ids for row in tokenized.rows] == reference["input_ids"]
    assert all(len(row.ids) <= length for row in tokenized.rows)


def test_a_text_that_is_too_long_is_refused_where_the_spec_says_so(source: Path) -> None:
    windows = [Window(8, "reject")] * 2
    short, long = encode(tokenizer(source), [Instance("ok"), Instance("ok " * 7)], windows)
    assert isinstance(short, Tokenized)
    assert isinstance(long, RequestError)
    assert str(long) == "the text has 9 tokens; at most 8 are allowed"


@pytest.mark.parametrize(
    ("question", "window", "message"),
    [
        (
            "ok " * 9,
            Window(10, "window", 0, strategy="only_second"),
            "12 tokens are not the context's, which leaves it no room",
        ),
        ("ok", Window(10, "window", 6, strategy="only_second"), "windows that share 6 tokens must have room for more"),
        (
            "ok",
            Window(6, "window", 1, strategy="only_second", max_windows=64),
            "makes 299 windows of 6 tokens; at most 64 are allowed",
        ),
        ("ok " * 9, Window(10, "truncate", 0, strategy="only_second"), "the text cannot be cut to 10 tokens"),
    ],
)
def test_windows_that_cannot_be_made_are_refused(source: Path, question: str, window: Window, message: str) -> None:
    neighbour, refused = encode(
        tokenizer(source),
        [Instance("ok", "ok"), Instance(question, "ok " * 300)],
        [Window(10, "window", 1, strategy="only_second"), window],
    )
    assert isinstance(neighbour, Tokenized)
    assert isinstance(refused, RequestError)
    assert message in str(refused)


def test_a_damaged_tokenizer_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ArtifactError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        RowTokenizer(path, "right")


def test_an_overlap_that_nobody_asked_for_gives_way(source: Path) -> None:
    window = Window(10, "window", 9, exact=False, strategy="only_second")
    (tokenized,) = encode(tokenizer(source), [Instance("ok ok", "ok " * 40)], [window])
    assert isinstance(tokenized, Tokenized)
    assert len(tokenized.rows) > 8
    assert not tokenized.truncated


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("pair", [None, "thanks " * 9000, "ok"])
def test_long_texts_are_cut_as_transformers_cuts_them_and_soon(source: Path, side: str, pair: str | None) -> None:
    """The library would lay all that is cut off into rows, for two texts each with each."""
    text = " ".join(WORDS) * 300
    reference = AutoTokenizer.from_pretrained(source)
    reference.truncation_side = side
    short_pair = pair and pair[:196]  # whole words
    short = text[:600] if side == "right" else text[-600:]
    expected = reference(short, short_pair, truncation=True, max_length=24)["input_ids"]
    cutter = RowTokenizer(source / "tokenizer.json", side)
    (tokenized,) = encode(cutter, [Instance(text, pair)], [Window(24, "truncate")])
    assert isinstance(tokenized, Tokenized)
    assert tokenized.rows[0].ids == expected


def test_two_endless_words_are_cut_too(tmp_path: Path) -> None:
    """The library would lay what is cut off of one with all that is cut off of the other, which takes all memory."""
    folder = save_model(tmp_path, "xlm-roberta", "text-classification")
    cutter = RowTokenizer(folder / "tokenizer.json", "right")
    endless = "invoice" * 3000
    windows = [Window(24, "truncate")] * 2
    alone, both = encode(cutter, [Instance(endless), Instance(endless, endless)], windows)
    assert isinstance(alone, Tokenized)
    assert isinstance(both, Tokenized)
    assert len(both.rows[0].ids) == 24


SCRIPTS = st.text(st.sampled_from("aáßñ👍🏽日本語あいя пар\u0301ﷺ١ हिन्दी ไทย한글 \t.-'"), max_size=40)
PAIRS = st.tuples(*[st.lists(st.sampled_from(WORDS) | SCRIPTS, max_size=30).map(" ".join)] * 2)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind: WordPiece, byte-level BPE, and Unigram with and without token types."""
    folder = tmp_path_factory.mktemp("kinds")
    kinds = ("bert", "roberta", "albert", "xlm-roberta")
    return {kind: save_model(folder / kind, kind, "text-classification") / "tokenizer.json" for kind in kinds}


@settings(max_examples=400, deadline=None)
@given(
    kind=st.sampled_from(["bert", "roberta", "albert", "xlm-roberta"]),
    pair=PAIRS,
    length=st.integers(4, 40),
    side=st.sampled_from(["right", "left"]),
    strategy=st.sampled_from(["longest_first", "only_first", "only_second"]),
)
def test_any_pair_is_cut_as_the_library_cuts_it_whole(
    tokenizers: dict[str, Path], kind: str, pair: tuple[str, str], length: int, side: str, strategy: str
) -> None:
    text, other = pair[0], pair[1] or "ok"
    cutter = RowTokenizer(tokenizers[kind], side)
    (found,) = encode(cutter, [Instance(text, other)], [Window(length, "truncate", strategy=strategy)], offsets=True)
    library = Tokenizer.from_file(str(tokenizers[kind]))
    library.enable_truncation(length, strategy=strategy, direction=side)
    try:
        expected = library.encode(text, other)
    except Exception:  # nothing of the text that is cut would be left
        assert isinstance(found, RequestError)
        return
    assert isinstance(found, Tokenized)
    (encoding,) = found.encodings
    for field in ("ids", "type_ids", "tokens", "offsets", "special_tokens_mask", "sequence_ids"):
        assert getattr(encoding, field) == getattr(expected, field), field
    for place, sequence in enumerate(expected.sequence_ids):
        word = expected.token_to_word(place)
        assert encoding.token_to_word(place) == word
        if word is not None and sequence is not None:
            assert encoding.word_to_chars(word, sequence) == expected.word_to_chars(word, sequence)


def test_a_text_that_is_nothing_but_a_prompt_is_refused(source: Path) -> None:
    windows = [Window(8, "truncate", prompt_tokens=2), Window(8, "truncate", prompt_tokens=3)]
    fine, refused = encode(tokenizer(source), [Instance("ok"), Instance("ok")], windows)
    assert isinstance(fine, Tokenized)
    assert fine.rows[0].prompt_tokens == 2
    assert isinstance(refused, RequestError)
    assert (refused.kind, str(refused)) == ("NoTokens", "the text has no tokens but the prompt's")


def test_what_is_cut_is_read_once(source: Path) -> None:
    """Each look into an encoding of the library makes a list of the whole text."""
    (found,) = encode(tokenizer(source), [Instance("ok " * 3000)], [Window(32, "truncate")], offsets=True)
    assert isinstance(found, Tokenized)
    (encoding,) = found.encodings
    for field in ("tokens", "offsets", "special_tokens_mask", "sequence_ids"):
        assert getattr(encoding, field) is getattr(encoding, field)
    assert encoding.word_to_chars(5, 0) == (15, 17)


def test_a_panic_of_the_library_fails_its_text_alone(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As pyo3 raises it: no Exception."""

    own = tokenizer(source)
    library = own.library

    class Panics:
        @staticmethod
        def encode_batch_fast(inputs: list[str]) -> list[Any]:
            if "secret" in inputs:
                raise PanicException("called `Option::unwrap()` on a `None` value: secret")
            return list(library.encode_batch_fast(inputs))

    monkeypatch.setattr(own, "library", Panics)
    fine, failed, also_fine = encode(
        own, [Instance("ok"), Instance("secret"), Instance("ok")], [Window(8, "reject")] * 3
    )
    assert isinstance(fine, Tokenized)
    assert isinstance(also_fine, Tokenized)
    assert isinstance(failed, RequestError)
    assert (failed.status, str(failed)) == (500, "the tokenizer failed with PanicException")


def test_what_the_tokenizer_loses_costs_no_other_text(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of too few or too many encodings is not believed; each text is then tokenized alone."""
    tokenizer = RowTokenizer(source / "tokenizer.json", "right")
    library = tokenizer.library

    def encode_batch(texts: list[str]) -> list[Any]:
        encodings = library.encode_batch_fast(texts)
        return encodings[1:] if len(texts) > 1 else encodings

    monkeypatch.setattr(tokenizer, "library", SimpleNamespace(encode_batch_fast=encode_batch))
    window = Window(16, "reject")
    texts = {key: Text(Instance(text), window) for key, text in (("a", "ok"), ("b", "thanks ok"), ("c", "ok"))}
    expected = RowTokenizer(source / "tokenizer.json", "right").encode(texts)
    tokenized = tokenizer.encode(texts)
    for key in texts:
        one, other = tokenized[key], expected[key]
        assert isinstance(one, Tokenized)
        assert isinstance(other, Tokenized)
        assert one.rows == other.rows
