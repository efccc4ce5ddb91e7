"""Cuts an instance to the tokens that a row holds, as the `tokenizers` library would cut it whole.

The library lays all that it cuts off into rows of its own, of two texts each with each, which takes
seconds and gigabytes for long ones. What it keeps follows from the numbers of tokens alone, so it
is chosen here from the tokens of the whole instance.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from handlers.worker.errors import RequestError


class Cut:
    """What is left of an encoding; it answers as the library's encodings do.

    Lists are made once: each look into an encoding of the library makes them anew for the whole text.

    Args:
        encoding: the library's, of the whole instance.
        places: of the tokens that are kept.
    """

    def __init__(self, encoding: Any, places: list[int]) -> None:
        self._encoding = encoding
        self._places = places
        self.ids = self._kept(encoding.ids)
        self.type_ids = self._kept(encoding.type_ids)

    @cached_property
    def tokens(self) -> list[str]:
        return self._kept(self._encoding.tokens)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        return self._kept(self._encoding.offsets)

    @cached_property
    def special_tokens_mask(self) -> list[int]:
        return self._kept(self._encoding.special_tokens_mask)

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        return self._kept(self._encoding.sequence_ids)

    def token_to_word(self, place: int) -> int | None:
        """The word of a token, in its text; None where the tokenizer knows no words."""
        return self._words[place]

    def word_to_chars(self, word: int, sequence: int) -> tuple[int, int] | None:
        """The characters of a word, as far as its tokens are kept."""
        return self._spans.get((word, sequence))

    @cached_property
    def _words(self) -> list[int | None]:
        return self._kept(self._encoding.word_ids)

    @cached_property
    def _spans(self) -> dict[tuple[int | None, int | None], tuple[int, int]]:
        spans: dict[tuple[int | None, int | None], tuple[int, int]] = {}
        for (start, end), *word in zip(self.offsets, self._words, self.sequence_ids):
            first, _ = spans.get((word[0], word[1]), (start, end))
            spans[word[0], word[1]] = first, end
        return spans

    def _kept(self, values: list[Any]) -> list[Any]:
        return [values[place] for place in self._places]


def cut(encoding: Any, max_length: int, strategy: str, side: str) -> Cut:
    """The tokens that fit.

    Args:
        encoding: the library's, of the whole instance with its special tokens, which are all kept.
        max_length: tokens that a row holds.
        strategy: "longest_first" or "only_second", as the library names it.
        side: that is cut, "right" or "left".

    Raises:
        RequestError: the strategy leaves nothing of the text that it cuts.
    """
    sequences = encoding.sequence_ids
    counts = [sum(sequence == number for sequence in sequences) for number in (0, 1)]
    first, second = counts
    room = max_length - (len(sequences) - first - second)
    only_second = strategy == "only_second" and room > 0
    kept = (first, room - first) if only_second else _longest_first(first, second, room)
    if kept[1] < int(only_second):
        raise RequestError("TextTooLong", f"the text cannot be cut to {max_length} tokens")
    places = []
    seen = [0, 0]
    for place, sequence in enumerate(sequences):
        if sequence is None:
            places.append(place)
            continue
        number = seen[sequence]
        seen[sequence] += 1
        if number < kept[sequence] if side == "right" else number >= counts[sequence] - kept[sequence]:
            places.append(place)
    return Cut(encoding, places)


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text are kept: the longer gives way until both are alike.

    Source: `truncate_encodings` in the `tokenizers` library (src/utils/truncation.rs). Of an odd room the
    longer text has the odd token, and of texts that are alike the second.
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
