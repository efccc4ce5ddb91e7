"""Estimates what requests cost, in milliseconds, before anything is tokenized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from handlers.worker.rows.plan import longest
from handlers.worker.rows.tokenizer import Text
from handlers.worker.values import Shape

# characters per token: English, and text that is not ASCII
CHARACTERS = {True: 4, False: 2}
SPECIAL_TOKENS = 2
CHARACTERS_PER_MS = 2000  # of the tokenizer; the libraries of the usual models are faster on current processors


class Costs:
    """The costs of a model's requests.

    Args:
        times: milliseconds of one call of every shape.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._max_length = longest(times)
        # for every number of tokens, the least milliseconds per row of a graph that holds them
        self._per_row = [
            min(time / _texts(shape, tokens) for shape, time in times.items() if shape.sequence_length >= tokens)
            for tokens in range(self._max_length + 1)
        ]
        self._per_token = min(time / shape.tokens for shape, time in times.items())

    @property
    def longest_row(self) -> float:
        """Of one row of the longest shape."""
        return self._per_row[self._max_length]

    def of_body(self, size: int) -> float:
        """Of a request whose body has this number of bytes, which has not been read."""
        return size / CHARACTERS[True] * self._per_token

    def of_request(self, texts: Iterable[Text]) -> float:
        """Of a request, from the lengths of its texts."""
        return sum(map(self._of_text, texts))

    def _of_text(self, text: Text) -> float:
        texts, window = text.instance.texts, text.window
        tokenizing = sum(map(len, texts)) / CHARACTERS_PER_MS
        tokens = SPECIAL_TOKENS + sum(len(text) // CHARACTERS[text.isascii()] for text in texts)
        rows, rest = divmod(tokens, self._max_length)
        if rows and window.rule != "window":
            rows, rest = 1, 0
        return tokenizing + rows * self.longest_row + (self._per_row[rest] if rest else 0.0)


def _texts(shape: Shape, tokens: int) -> int:
    """How many texts of so many tokens a call computes."""
    return shape.batch_size * min(shape.sequence_length // max(1, tokens), shape.texts_a_line)
