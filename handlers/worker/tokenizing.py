"""Turns instances into rows of token ids with the artifact's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.instances import Instance

MAX_WINDOWS = 256  # of one instance; bounds what one long text can ask for


class Row(NamedTuple):
    """The tokens of one row, without padding; both lists have the same length."""

    ids: list[int]
    type_ids: list[int]


class Window(NamedTuple):
    """How an instance's tokens are laid into rows.

    rule is "truncate", "reject" or "window"; stride is how many tokens two windows share; cut is
    what is shortened: "longest_first" or "only_second", as the `tokenizers` library names it.
    """

    max_length: int
    rule: str
    stride: int = 0
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
        encodings = self._encode_batch([(text, pair) if pair else text for text, pair in instances])
        return [
            self._laid_out(instance, window, encoding)
            for instance, window, encoding in zip(instances, windows, encodings)
        ]

    def _laid_out(self, instance: Instance, window: Window, encoding: Any) -> Tokenized | RequestError:
        tokens = len(encoding.ids)
        if not tokens:
            return RequestError("InvalidText", "the text has no tokens")
        if tokens <= window.max_length:
            return _tokenized([encoding], cut=False)
        if window.rule == "reject":
            message = f"the text has {tokens} tokens; at most {window.max_length} are allowed"
            return RequestError("TextTooLong", message)
        try:
            self._check_room(window, encoding)
            encodings = self._overflowing(instance, window)
        except RequestError as error:
            return error
        if window.rule == "truncate":
            return _tokenized(encodings[:1], cut=True)
        if len(encodings) > MAX_WINDOWS:
            message = f"the text makes {len(encodings)} windows of {window.max_length} tokens; at most {MAX_WINDOWS}"
            return RequestError("TextTooLong", f"{message} are allowed")
        return _tokenized(encodings, cut=False)

    def _check_room(self, window: Window, encoding: Any) -> None:
        """See that a window has room for more than its overlap; the library panics where it has not."""
        fixed = sum(encoding.special_tokens_mask)
        if window.cut == "only_second":
            fixed += sum(sequence == 0 for sequence in encoding.sequence_ids)
        room = window.max_length - fixed
        if room < 1:
            message = f"{fixed} tokens are not the context's, which leaves it no room in {window.max_length}"
            raise RequestError("TextTooLong", message)
        if window.rule == "window" and window.stride >= room:
            message = f"windows that share {window.stride} tokens must have room for more, and have room for {room}"
            raise RequestError("InvalidParameter", message)

    def _overflowing(self, instance: Instance, window: Window) -> list[Any]:
        """The encodings that the library cuts an instance into."""
        stride = window.stride if window.rule == "window" else 0
        self.library.enable_truncation(
            window.max_length, stride=stride, strategy=window.cut, direction=self._truncation_side
        )
        try:
            first = self.library.encode(instance.text, instance.text_pair or None)
        except Exception as error:  # the library raises bare Exception
            raise RequestError(
                "TextTooLong", f"the text cannot be cut to {window.max_length} tokens: {error}"
            ) from None
        finally:
            self.library.no_truncation()
        return [first, *first.overflowing]


def _tokenized(encodings: list[Any], cut: bool) -> Tokenized:
    return Tokenized([Row(encoding.ids, encoding.type_ids) for encoding in encodings], encodings, cut)
