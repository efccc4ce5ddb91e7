"""Turns instances into rows of token ids with the artifact's tokenizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.instances import Instance

MAX_WINDOWS = 64  # of one instance; bounds what one long text can ask for
SPARE = 8  # tokens that are kept beyond a row when a text is shortened, so that the last word is whole
MAX_COMBINATIONS = 4096  # of the pieces of two texts; the library makes them all where both are cut


class Row(NamedTuple):
    """The tokens of one row, without padding; both lists have the same length."""

    ids: list[int]
    type_ids: list[int]


class Window(NamedTuple):
    """How an instance's tokens are laid into rows.

    rule is "truncate", "reject" or "window"; stride is how many tokens two windows share, at most
    if it is not exact; cut is what is shortened: "longest_first" or "only_second", as the
    `tokenizers` library names it.
    """

    max_length: int
    rule: str
    stride: int = 0
    exact: bool = True
    cut: str = "longest_first"


class Tokenized(NamedTuple):
    """An instance as rows, each with the library's encoding, which knows offsets, words and special tokens."""

    rows: list[Row]
    encodings: list[Any]
    cut: bool


class RowTokenizer:
    """The `tokenizers` library behind the rule for texts that are too long.

    Args:
        path: tokenizer.json.
        truncation_side: the side that is cut, "right" or "left".
        offsets: whether encodings must know the place of tokens in the text; slower.

    Attributes:
        library: the library's own tokenizer, set to neither truncate nor pad.
    """

    def __init__(self, path: Path, truncation_side: str, offsets: bool = False) -> None:
        from tokenizers import Tokenizer

        try:
            self.library = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ArtifactError(f"{path} cannot be read as a tokenizer: {error}") from None
        self._truncation_side = truncation_side
        self.library.no_padding()
        self.library.no_truncation()
        self._encode_batch = self.library.encode_batch if offsets else self.library.encode_batch_fast

    def encode(self, instances: Sequence[Instance], windows: Sequence[Window]) -> list[Tokenized | RequestError]:
        """The rows of each instance, or the reason why it has none."""
        # transformers takes an empty second text for none
        inputs = [(text, pair) if pair else text for text, pair in instances]
        try:
            encodings = self._encode_batch(inputs)
        except Exception:  # the library raises bare Exception: find out for which
            encodings = [self._encode_alone(one) for one in inputs]
        return [
            encoding if isinstance(encoding, RequestError) else self._laid_out(instance, window, encoding)
            for instance, window, encoding in zip(instances, windows, encodings)
        ]

    def _encode_alone(self, text: Any) -> Any:
        try:
            return self._encode_batch([text])[0]
        except Exception:
            return RequestError("InvalidText", "the tokenizer cannot read the text")

    def _laid_out(self, instance: Instance, window: Window, encoding: Any) -> Tokenized | RequestError:
        tokens = len(encoding)
        if not tokens:
            return RequestError("InvalidText", "the text has no tokens")
        if tokens <= window.max_length:
            return _tokenized([encoding], cut=False)
        if window.rule == "reject":
            message = f"the text has {tokens} tokens; at most {window.max_length} are allowed"
            return RequestError("TextTooLong", message)
        try:
            if window.rule == "truncate":
                return _tokenized(self._cut(self._shortened(instance, window), window)[:1], cut=True)
            return _tokenized(self._cut(instance, self._checked(window, encoding)), cut=False)
        except RequestError as error:
            return error

    def _checked(self, window: Window, encoding: Any) -> Window:
        """A window that has room for more than its overlap, and does not make too many.

        The library panics over the one, and runs out of memory over the other.
        """
        fixed = sum(encoding.special_tokens_mask)
        if window.cut == "only_second":
            fixed += sum(sequence == 0 for sequence in encoding.sequence_ids)
        room = window.max_length - fixed
        if room < 1:
            message = f"{fixed} tokens are not the context's, which leaves it no room in {window.max_length}"
            raise RequestError("TextTooLong", message)
        if window.exact and window.stride >= room:
            message = f"windows that share {window.stride} tokens must have room for more, and have room for {room}"
            raise RequestError("InvalidParameter", message)
        stride = window.stride if window.stride < room else room // 2
        count = 1 + math.ceil((len(encoding.ids) - fixed - room) / (room - stride))
        if count > MAX_WINDOWS:
            message = f"the text makes {count} windows of {window.max_length} tokens; at most {MAX_WINDOWS} are allowed"
            raise RequestError("TextTooLong", message)
        return window._replace(stride=stride)

    def _shortened(self, instance: Instance, window: Window) -> Instance:
        """An instance without most of what will be cut off, so that the library does not make rows of that."""
        texts = [instance.text, instance.text_pair or ""]
        encodings = [self.library.encode(text, add_special_tokens=False) for text in texts]
        # the longer text stays the longer one: an odd token is cut off from the other
        order = sorted(range(2), key=lambda number: len(encodings[number].ids))
        keep, pieces = window.max_length + SPARE, 1
        for number in order:
            texts[number], tokens = _shorten(texts[number], encodings[number], keep, self._truncation_side)
            keep = max(keep, tokens + (order == [1, 0]))
            pieces *= 1 + tokens // max(1, window.max_length // 2)
        if pieces > MAX_COMBINATIONS:
            raise RequestError("TextTooLong", "two texts without a space are too long to be cut together")
        return Instance(*texts)

    def _cut(self, instance: Instance, window: Window) -> list[Any]:
        """The encodings that the library cuts an instance into."""
        stride = window.stride if window.rule == "window" else 0
        self.library.enable_truncation(
            window.max_length, stride=stride, strategy=window.cut, direction=self._truncation_side
        )
        try:
            first = self.library.encode(instance.text, instance.text_pair or None)
        except Exception:  # the library raises bare Exception, whose text may hold the client's
            raise RequestError("TextTooLong", f"the text cannot be cut to {window.max_length} tokens") from None
        finally:
            self.library.no_truncation()
        return [first, *first.overflowing]


def _shorten(text: str, encoding: Any, keep: int, side: str) -> tuple[str, int]:
    """The text up to (or, on the left side, from) the end of the word that holds token `keep`, and its tokens."""
    words = encoding.word_ids
    if len(words) <= keep:
        return text, len(words)
    if side == "right":
        last = keep - 1
        while last + 1 < len(words) and words[last + 1] == words[last]:
            last += 1
        return text[: encoding.offsets[last][1]], last + 1
    first = len(words) - keep
    while first > 0 and words[first - 1] == words[first]:
        first -= 1
    return text[encoding.offsets[first][0] :], len(words) - first


def _tokenized(encodings: list[Any], cut: bool) -> Tokenized:
    return Tokenized([Row(encoding.ids, encoding.type_ids) for encoding in encodings], encodings, cut)
