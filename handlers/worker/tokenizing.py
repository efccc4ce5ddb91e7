"""Turns instances into rows of token ids with the artifact's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from handlers.worker.errors import ArtifactError, RequestError
from handlers.worker.parsing import Instance


class Row(NamedTuple):
    """The tokens of one row, without padding; both lists have the same length."""

    ids: list[int]
    type_ids: list[int]


class RowTokenizer:
    """The `tokenizers` library behind the rule for texts that are too long.

    Args:
        path: tokenizer.json.
        max_length: the most tokens in a row, special tokens included.
        long_text: "truncate" cuts what is too long as transformers does ("longest first" for
            pairs); "reject" refuses it.
        truncation_side: the side that is cut, "right" or "left".
    """

    def __init__(self, path: Path, max_length: int, long_text: str, truncation_side: str) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ArtifactError(f"{path} cannot be read as a tokenizer: {error}") from None
        self._max_length = max_length
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        if long_text == "truncate":
            self._tokenizer.enable_truncation(max_length, direction=truncation_side)

    def encode(self, instances: Sequence[Instance]) -> list[Row | RequestError]:
        """One row for each instance, or the reason why it has none."""
        # transformers takes an empty second text for none
        inputs = [(text, pair) if pair else text for text, pair in instances]
        return [
            self._checked(Row(encoding.ids, encoding.type_ids))
            for encoding in self._tokenizer.encode_batch_fast(inputs)
        ]

    def _checked(self, row: Row) -> Row | RequestError:
        tokens = len(row.ids)
        if tokens > self._max_length:
            message = f"the text has {tokens} tokens; at most {self._max_length} are allowed"
            return RequestError("TextTooLong", message)
        if not tokens:
            return RequestError("InvalidText", "the text has no tokens")
        return row
