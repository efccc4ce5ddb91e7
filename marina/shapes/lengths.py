"""The lengths of texts: a list of token counts, from one of three kinds of file.

.jsonl, .csv   texts, in the fields of the task; or their lengths, in a field "tokens"
.json          a histogram: {"12": 340, "13": 298, ...}, from token count to number of texts
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from handlers.worker.request.schema import Fields
from handlers.worker.values import Instance
from marina.errors import SpecError
from marina.spec.texts import read_entries, read_texts

Item = TypeVar("Item")
MAX_LENGTHS = 20_000  # more would not change the result
TOKENS = "tokens"


def read_lengths(path: Path, fields: Fields, tokenize: Callable[[list[Instance]], list[int]]) -> list[int]:
    """The number of tokens of each text, in the order of the file.

    Args:
        path: a file of one of the three kinds.
        fields: the task's fields, for files of texts.
        tokenize: counts the tokens of texts.

    Raises:
        SpecError: the file cannot be read, or holds fewer than two lengths.
    """
    try:
        lengths = _read_histogram(path) if path.suffix == ".json" else _read_token_counts(path)
    except KeyError:
        raise SpecError(f"{path}: a line has no {TOKENS}, as the first one has") from None
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, csv.Error) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    if lengths is None:
        lengths = tokenize(_sample(read_texts(path, fields, str(path))))
    if len(lengths) < 2 or min(lengths) < 1:
        raise SpecError(f"{path} must hold the lengths of at least two texts, each of at least one token")
    return _sample(lengths)


def _read_histogram(path: Path) -> list[int]:
    counts = {int(tokens): int(count) for tokens, count in json.loads(path.read_text(encoding="utf-8")).items()}
    if any(count < 0 for count in counts.values()):
        raise ValueError("a count is negative")
    return expand_histogram(counts)


def expand_histogram(counts: Mapping[int, int]) -> list[int]:
    """The lengths of a histogram, interleaved so that each half of the list has the histogram's distribution."""
    total = sum(counts.values())
    scale = min(1.0, MAX_LENGTHS / total) if total else 1.0
    ordered = sorted(
        ((number + 0.5) / size, tokens)
        for tokens, size in ((tokens, round(count * scale)) for tokens, count in counts.items())
        for number in range(size)
    )
    return [tokens for _, tokens in ordered]


def _read_token_counts(path: Path) -> list[int] | None:
    """The field "tokens" of every entry; None if the file contains texts."""
    entries = read_entries(path)
    if not entries or TOKENS not in entries[0]:
        return None
    return [int(entry[TOKENS]) for entry in entries]


def _sample(items: list[Item]) -> list[Item]:
    """At most `MAX_LENGTHS` items, spread evenly over the list."""
    return items[:: -(-len(items) // MAX_LENGTHS)] if items else items
