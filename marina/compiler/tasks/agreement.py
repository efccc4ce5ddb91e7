"""Measures that show whether a graph of lower precision gives the same answers: spans in them, and cosines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.request.parameters import read_parameters
from handlers.worker.tasks.base import Example, Task
from handlers.worker.tokens.tokenizer import RowTokenizer, Text, Tokenized, Window


def spans_of(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Sequence[npt.NDArray[Any]]],
    signature: Signature,
    task: Task,
    tokenizer: RowTokenizer,
    parameters: Mapping[str, Any],
) -> list[set[tuple[int, int, str]]]:
    """For each text, the labelled spans in its answer."""
    window = Window(max(len(row.row.ids) for row in rows), "reject")
    encoded = tokenizer.encode({number: Text(row.instance, window) for number, row in enumerate(rows)}, task.offsets)
    parameter_values = read_parameters(dict(parameters), task.parameters, {})
    spans = []
    for number, (row, output) in enumerate(zip(rows, outputs, strict=True)):
        tokenized = encoded[number]
        assert isinstance(tokenized, Tokenized)  # the window is long enough for every row
        answer = task.answer(Example(row.instance, tokenized, [list(output)], parameter_values), signature, tokenizer)
        entries = answer if isinstance(answer, list) else [answer]
        spans.append({(entry["start"], entry["end"], entry.get("entity_group", "")) for entry in entries})
    return spans


def cosines_of(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The cosine of each vector with the reference's.

    Two vectors of zeros agree (1), as sparse embeddings may be; a vector that is not finite agrees with none (0).

    Args:
        expected: the reference's vectors, shape (vectors, width).
        actual: the graph's, of the same shape.
    """
    both_zero = ~expected.any(1) & ~actual.any(1)
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(actual, axis=1)
        cosines = (expected * actual).sum(1) / np.maximum(norms, 1e-12)
    return np.where(both_zero, 1.0, np.nan_to_num(cosines, posinf=0, neginf=0))


def f1(expected: Sequence[set[Any]], actual: Sequence[set[Any]]) -> float:
    """F1 score of the spans of all texts together; 1 if neither side has any."""
    common = sum(
        len(expected_spans & actual_spans) for expected_spans, actual_spans in zip(expected, actual, strict=True)
    )
    total = sum(
        len(expected_spans) + len(actual_spans) for expected_spans, actual_spans in zip(expected, actual, strict=True)
    )
    return 2 * common / total if total else 1.0
