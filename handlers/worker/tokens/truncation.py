"""Truncates an instance to the tokens that a row holds, with the same result as the `tokenizers` library.

The library also turns the tokens that it cuts off into rows; for two texts it makes every combination of their
parts. For long texts that takes seconds and gigabytes. The tokens that it keeps depend only on the numbers of
tokens, so this module selects them from the tokens of the whole instance.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from handlers.worker.errors import RequestError


class TruncatedEncoding:
    """An encoding without the tokens that do not fit; it has the interface of the library's encodings.

    Lists are built once, because every access to a list of a library encoding rebuilds it for the whole text.

    Args:
        encoding: the library's encoding of the whole instance.
        positions: of the tokens to keep.
    """

    def __init__(self, encoding: Any, positions: list[int]) -> None:
        self._encoding = encoding
        self._positions = positions
        self.ids = self._select(encoding.ids)
        self.type_ids = self._select(encoding.type_ids)

    @cached_property
    def tokens(self) -> list[str]:
        return self._select(self._encoding.tokens)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        return self._select(self._encoding.offsets)

    @cached_property
    def special_tokens_mask(self) -> list[int]:
        return self._select(self._encoding.special_tokens_mask)

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        return self._select(self._encoding.sequence_ids)

    def token_to_word(self, position: int) -> int | None:
        """The index of a token's word in its text; None if the tokenizer has no words."""
        return self._words[position]

    def word_to_chars(self, word: int, sequence: int) -> tuple[int, int] | None:
        """The character range of a word, as far as its tokens are kept."""
        return self._spans.get((word, sequence))

    @cached_property
    def _words(self) -> list[int | None]:
        return self._select(self._encoding.word_ids)

    @cached_property
    def _spans(self) -> dict[tuple[int | None, int | None], tuple[int, int]]:
        spans: dict[tuple[int | None, int | None], tuple[int, int]] = {}
        for (start, end), *word in zip(self.offsets, self._words, self.sequence_ids, strict=True):
            first, _ = spans.get((word[0], word[1]), (start, end))
            spans[word[0], word[1]] = first, end
        return spans

    def _select(self, values: list[Any]) -> list[Any]:
        return [values[position] for position in self._positions]


def truncate(encoding: Any, max_length: int, strategy: str, side: str) -> TruncatedEncoding:
    """Keep the tokens that fit into a row.

    Args:
        encoding: the library's encoding of the whole instance with its special tokens, which are all kept.
        max_length: the maximum number of tokens in a row.
        strategy: "longest_first", "only_first" or "only_second", in the terms of the library.
        side: the side that is truncated, "right" or "left".

    Raises:
        RequestError: the strategy leaves nothing of the text that it truncates.
    """
    sequences = encoding.sequence_ids
    counts = [sum(sequence == number for sequence in sequences) for number in (0, 1)]
    first, second = counts
    room = max_length - (len(sequences) - first - second)
    if strategy == "longest_first" or room <= 0:
        kept_counts = _longest_first(first, second, room)
        is_lost = kept_counts[1] < 0
    else:
        kept_counts = (first, room - first) if strategy == "only_second" else (room - second, second)
        is_lost = kept_counts[strategy == "only_second"] < 1
    if is_lost:
        raise RequestError("TextTooLong", f"the text cannot be cut to {max_length} tokens")
    positions = []
    seen_counts = [0, 0]
    for position, sequence in enumerate(sequences):
        if sequence is None:
            positions.append(position)
            continue
        number = seen_counts[sequence]
        seen_counts[sequence] += 1
        if number < kept_counts[sequence] if side == "right" else number >= counts[sequence] - kept_counts[sequence]:
            positions.append(position)
    return TruncatedEncoding(encoding, positions)


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """The number of tokens to keep of each text: the longer text is shortened until both have equal length.

    Source: `truncate_encodings` in the `tokenizers` library (src/utils/truncation.rs). If the room is odd, the longer
    text gets the odd token; if both texts have the same length, the second one gets it.
    """
    short, long = sorted((first, second))
    if short + long <= room:
        return first, second
    if room < 0:
        return -1, -1
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short, long = room // 2, room // 2 + room % 2
    return (short, long) if first <= second else (long, short)
