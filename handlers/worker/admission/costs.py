"""Estimates the costs of requests, in milliseconds, before their texts are tokenized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from handlers.worker.rows.plan import max_sequence_length
from handlers.worker.tokens.tokenizer import Text
from handlers.worker.values import Shape

# by whether a text is ASCII, as English usually is
CHARACTERS_PER_TOKEN = {True: 4, False: 2}
SPECIAL_TOKENS = 2
CHARACTERS_PER_MS = 2000  # of the tokenizer; the libraries of the usual models are faster on current processors


class Costs:
    """The costs of a model's requests.

    Args:
        times: milliseconds of one call of every shape.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        self._max_length = max_sequence_length(times)
        # for every number of tokens, the minimum milliseconds per row of a graph that holds them
        self._row_ms = [
            min(
                time / _texts_per_call(shape, tokens)
                for shape, time in times.items()
                if shape.sequence_length >= tokens
            )
            for tokens in range(self._max_length + 1)
        ]
        self._token_ms = min(time / shape.tokens for shape, time in times.items())

    @property
    def longest_row_ms(self) -> float:
        """The cost of one row of the longest shape."""
        return self._row_ms[self._max_length]

    def of_body(self, size: int) -> float:
        """The cost of a request that has not been read, from the bytes of its body."""
        return size / CHARACTERS_PER_TOKEN[True] * self._token_ms

    def of_request(self, texts: Iterable[Text]) -> float:
        """The cost of a request, from the lengths of its texts."""
        return sum(map(self._text_ms, texts))

    def _text_ms(self, text: Text) -> float:
        texts, window = text.instance.texts, text.window
        tokenizing = sum(map(len, texts)) / CHARACTERS_PER_MS
        tokens = SPECIAL_TOKENS + estimated_tokens(texts)
        if window.filling is not None:
            tokens = max(tokens, window.filling.length)
        if window.rule != "window":
            tokens = min(tokens, window.max_length, self._max_length)
        rows, rest_tokens = divmod(tokens, self._max_length)
        return tokenizing + rows * self.longest_row_ms + (self._row_ms[rest_tokens] if rest_tokens else 0.0)


def estimated_tokens(texts: Iterable[str]) -> int:
    """The tokens of texts, from their lengths."""
    return sum(len(text) // CHARACTERS_PER_TOKEN[text.isascii()] for text in texts)


def _texts_per_call(shape: Shape, tokens: int) -> int:
    """The number of texts of so many tokens that a call computes."""
    return shape.batch_size * min(shape.sequence_length // max(1, tokens), shape.texts_a_line)
