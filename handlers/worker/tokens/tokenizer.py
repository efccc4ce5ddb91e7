"""Turns instances into rows of token ids, with the artifact's tokenizer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from handlers.worker.archive.signature import Filling
from handlers.worker.errors import ArtifactError, RequestError, request_error
from handlers.worker.tokens.truncation import truncate
from handlers.worker.values import Instance, Json, Row

# exceptions that end the process, and are not an error of one request
EXIT_EXCEPTIONS = (KeyboardInterrupt, SystemExit)
K = TypeVar("K", bound=Hashable)


class Window(NamedTuple):
    """How an instance's tokens are laid out in rows.

    rule is "truncate", "reject" or "window". stride is the number of tokens that two consecutive windows share; it is
    an upper bound unless exact is true. strategy says which text is truncated: "longest_first", "only_first" or
    "only_second", in the terms of the `tokenizers` library. side is the side that is truncated; None means the
    tokenizer's own side. max_windows is the maximum number of windows of one instance. prompt_tokens is the value for
    its rows. empty_pair is true if an empty second text makes a pair too. filling fills rows up.
    """

    max_length: int
    rule: str
    stride: int = 0
    exact: bool = True
    strategy: str = "longest_first"
    side: str | None = None
    max_windows: int = 256
    prompt_tokens: int = 0
    empty_pair: bool = False
    filling: Filling | None = None


class Text(NamedTuple):
    """The instance that the tokenizer reads, and how its tokens are laid out in rows."""

    instance: Instance
    window: Window


class Tokenized(NamedTuple):
    """An instance as rows, each with the library's encoding, which contains offsets, words and special tokens."""

    rows: list[Row]
    encodings: list[Any]
    truncated: bool


class RowTokenizer:
    """A tokenizer of the `tokenizers` library, with the rules for texts that are too long.

    Args:
        path: tokenizer.json.
        truncation_side: the side that is truncated, "right" or "left".

    Attributes:
        library: the library's own tokenizer, with truncation and padding disabled.
    """

    def __init__(self, path: Path, truncation_side: str) -> None:
        from tokenizers import Tokenizer

        try:
            self.library = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ArtifactError(f"{path} cannot be read as a tokenizer: {error}") from None
        self._truncation_side = truncation_side
        self.library.no_padding()
        self.library.no_truncation()

    def encode(self, texts: Mapping[K, Text], offsets: bool = False) -> dict[K, Tokenized | RequestError]:
        """The rows of each text, or the error if it has none, under the text's key.

        Args:
            texts: under any keys; equal texts are tokenized once.
            offsets: whether encodings must contain the offsets of tokens in the text, which is slower.
        """
        inputs = {key: _input(text) for key, text in texts.items()}
        distinct = list(dict.fromkeys(inputs.values()))
        encode = self.library.encode_batch if offsets else self.library.encode_batch_fast
        try:
            encodings: dict[Any, Any] = dict(zip(distinct, encode(distinct), strict=True))
        except EXIT_EXCEPTIONS:
            raise
        except BaseException:  # bare Exception, or a panic, which is a BaseException: find out which text caused it
            encodings = {text: _encode_single(encode, text) for text in distinct}
        tokenized: dict[K, Tokenized | RequestError] = {}
        for key, (instance, window) in texts.items():
            encoding = encodings[inputs[key]]
            failed = isinstance(encoding, RequestError)
            tokenized[key] = encoding if failed else self._lay_out(instance, window, encoding)
        return tokenized

    def tokens(self, text: Text, special: bool, room: int) -> tuple[list[Json], bool]:
        """The tokens of a text, and whether they are more than a row has room for.

        Args:
            text: which is not cut.
            special: whether to add special tokens, such as [CLS].
            room: the number of tokens that there may be.

        Raises:
            RequestError: the tokenizer cannot read the text, or there are more tokens.
        """

        def encode(texts: list[Any]) -> list[Any]:
            return self.library.encode_batch(texts, add_special_tokens=special)

        pair = _input(text)
        encoding = _encode_single(encode, pair)
        if isinstance(encoding, RequestError):
            raise encoding
        if len(encoding) > room:
            raise RequestError(
                "TooMuchWork", f"the text has {len(encoding)} tokens, and the request may have {room} more"
            )
        texts = (text.instance.text, text.instance.text_pair or "")
        columns = (encoding.ids, encoding.tokens, encoding.offsets, encoding.sequence_ids)
        tokens: list[Json] = [
            {"id": number, "text": token, "special": True, "start": None, "stop": None}
            if sequence is None
            else {"id": number, "text": texts[sequence][start:stop], "special": False, "start": start, "stop": stop}
            for number, token, (start, stop), sequence in zip(*columns, strict=True)
        ]
        added = 0 if special else self.library.num_special_tokens_to_add(isinstance(pair, tuple))
        return tokens, len(tokens) + added > text.window.max_length

    def _lay_out(self, instance: Instance, window: Window, encoding: Any) -> Tokenized | RequestError:
        tokens = len(encoding)
        if tokens <= window.prompt_tokens or window.max_length <= window.prompt_tokens:
            return RequestError("NoTokens", "the text has no tokens" + " but the prompt's" * bool(window.prompt_tokens))
        if tokens <= window.max_length:
            return _tokenized([encoding], window, truncated=False)
        if window.rule == "reject":
            message = f"the text has {tokens} tokens; at most {window.max_length} are allowed"
            return RequestError("TextTooLong", message)
        try:
            if window.rule == "truncate":
                side = window.side or self._truncation_side
                return _tokenized(
                    [truncate(encoding, window.max_length, window.strategy, side)], window, truncated=True
                )
            window = _fit_window(window, encoding)
            return _tokenized(self._windows(instance, window), window, truncated=False)
        except RequestError as error:
            return request_error(error)

    def _windows(self, instance: Instance, window: Window) -> list[Any]:
        """The library's encodings of an instance, one per window."""
        self.library.enable_truncation(
            window.max_length, stride=window.stride, strategy=window.strategy, direction=self._truncation_side
        )
        try:
            first = self.library.encode(instance.text, instance.text_pair or None)
        except EXIT_EXCEPTIONS:
            raise
        except BaseException:  # bare Exception, or a panic; its message may contain the client's text
            raise RequestError("TextTooLong", f"the text cannot be cut to {window.max_length} tokens") from None
        finally:
            self.library.no_truncation()
        return [first, *first.overflowing]


def _input(text: Text) -> Any:
    """A text or a pair; transformers treats an empty second text as no second text, but for lists of pairs."""
    instance, window = text
    paired = instance.text_pair is not None if window.empty_pair else bool(instance.text_pair)
    return (instance.text, instance.text_pair) if paired else instance.text


def _encode_single(encode: Callable[[list[Any]], list[Any]], text: Any) -> Any:
    try:
        (encoding,) = encode([text])
        return encoding
    except EXIT_EXCEPTIONS:
        raise
    except Exception:
        return RequestError("InvalidText", "the tokenizer cannot read the text")
    except BaseException as error:
        logging.getLogger(__name__).error("the tokenizer failed with %s", type(error).__name__)
        return RequestError("Unexpected", f"the tokenizer failed with {type(error).__name__}")


def _fit_window(window: Window, encoding: Any) -> Window:
    """Fit the stride of a window to its room; refuse a window without room for new tokens, and too many windows.

    The library panics in the first case, and runs out of memory in the second.
    """
    fixed_tokens = sum(encoding.special_tokens_mask)
    if window.strategy == "only_second":
        fixed_tokens += sum(sequence == 0 for sequence in encoding.sequence_ids)
    room = window.max_length - fixed_tokens
    if room < 1:
        message = f"{fixed_tokens} tokens are not the context's, which leaves it no room in {window.max_length}"
        raise RequestError("TextTooLong", message)
    if window.exact and window.stride >= room:
        message = f"windows that share {window.stride} tokens must have room for more, and have room for {room}"
        raise RequestError("InvalidParameter", message)
    stride = window.stride if window.stride < room else room // 2
    count = 1 + math.ceil((len(encoding.ids) - fixed_tokens - room) / (room - stride))
    if count > window.max_windows:
        message = (
            f"the text makes {count} windows of {window.max_length} tokens; at most {window.max_windows} are allowed"
        )
        raise RequestError("TooManyWindows", message)
    return window._replace(stride=stride)


def _tokenized(encodings: list[Any], window: Window, truncated: bool) -> Tokenized:
    rows = [Row(encoding.ids, encoding.type_ids, window.prompt_tokens) for encoding in encodings]
    if window.filling is not None:
        rows = [_fill_up(row, window.filling) for row in rows]
    return Tokenized(rows, encodings, truncated)


def _fill_up(row: Row, filling: Filling) -> Row:
    missing = max(0, filling.length - len(row.ids))
    ids, type_ids = [*row.ids, *[filling.token] * missing], [*row.type_ids, *[0] * missing]
    return row._replace(ids=ids, type_ids=type_ids, filled=missing)
