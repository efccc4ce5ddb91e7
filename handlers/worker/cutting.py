"""Cuts an instance to the tokens that a row holds, as the `tokenizers` library would cut it whole.

The library lays all that it cuts off into rows of its own, of two texts each with each, which takes
seconds and gigabytes for long ones. What it keeps follows from the numbers of tokens alone, so it
is chosen here from the tokens of the whole instance.
"""

from __future__ import annotations

from typing import Any

from handlers.worker.errors import RequestError


class Cut:
    """What is left of an encoding; it answers as the library's encodings do.

    Args:
        encoding: the library's, of the whole instance.
        places: of the tokens that are kept.
    """

    def __init__(self, encoding: Any, places: list[int]) -> None:
        self._encoding = encoding
        self._places = places
        self.ids = self._kept(encoding.ids)
        self.type_ids = self._kept(encoding.type_ids)

    @property
    def tokens(self) -> list[str]:
        return self._kept(self._encoding.tokens)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        return self._kept(self._encoding.offsets)

    @property
    def special_tokens_mask(self) -> list[int]:
        return self._kept(self._encoding.special_tokens_mask)

    @property
    def sequence_ids(self) -> list[int | None]:
        return self._kept(self._encoding.sequence_ids)

    def token_to_word(self, place: int) -> int | None:
        """The word of a token, in its text; None where the tokenizer knows no words."""
        word: int | None = self._encoding.token_to_word(self._places[place])
        return word

    def word_to_chars(self, word: int, sequence: int) -> tuple[int, int] | None:
        """The characters of a word, as far as its tokens are kept."""
        words, sequences = self._kept(self._encoding.word_ids), self.sequence_ids
        own = [span for span, *found in zip(self.offsets, words, sequences) if found == [word, sequence]]
        return (own[0][0], own[-1][1]) if own else None

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
