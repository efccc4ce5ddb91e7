"""Whether a graph of lower precision still gives the answers of the reference model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.artifact import Artifact
from handlers.worker.golden import GoldenRow
from handlers.worker.request.parameters import read_parameters
from handlers.worker.rows.tokenizer import RowTokenizer, Tokenized, Window
from handlers.worker.tasks.base import Example, Task
from handlers.worker.values import Outputs

Array = npt.NDArray[Any]
REGRESSION = 0.05  # of the reference's standard deviation: outputs that are no farther apart are alike


class Agreement(NamedTuple):
    """How alike answers are, from 0 to 1, in the task's own measure, over a number of texts."""

    measure: str
    value: float
    texts: int


def measure_agreement(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Outputs],
    artifact: Artifact,
    task: Task,
    tokenizer: RowTokenizer,
    parameters: Mapping[str, Any],
) -> Agreement:
    """Compare a graph's outputs with the reference's.

    Args:
        rows: held-out texts with the reference outputs.
        outputs: the graph's, for each of them.
        artifact: tells the heads.
        task: answers from outputs.
        tokenizer: the artifact's.
        parameters: the model's own defaults for requests.
    """
    if task.name == "sentence-embedding":
        return Agreement("mean cosine", _mean_cosine(rows, outputs), len(rows))
    if task.name == "text-classification":
        return Agreement("same label", _same_labels(rows, outputs, artifact), len(rows))
    tagging = task.name == "token-classification"
    chosen = {**parameters, "aggregation_strategy": "simple"} if tagging else parameters
    expected = _spans(rows, [row.outputs for row in rows], artifact, task, tokenizer, chosen)
    found = _spans(rows, outputs, artifact, task, tokenizer, chosen)
    if tagging:
        return Agreement("F1 of entities", _f1(expected, found), len(rows))
    same = np.mean([one == other for one, other in zip(expected, found)])
    return Agreement("same answer", float(same), len(rows))


def _mean_cosine(rows: Sequence[GoldenRow], outputs: Sequence[Outputs]) -> float:
    expected = np.array([row.outputs[0] for row in rows])
    found = np.array([output[0] for output in outputs], dtype=np.float64)
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    return float(((expected * found).sum(1) / norms).mean())


def _same_labels(rows: Sequence[GoldenRow], outputs: Sequence[Outputs], artifact: Artifact) -> float:
    """The share of texts for which every head gives the same label, labels or value."""
    same = np.ones(len(rows), dtype=bool)
    for index, name in enumerate(artifact.outputs):
        expected = np.array([row.outputs[index] for row in rows])
        found = np.array([output[index] for output in outputs])
        same &= _alike(expected, found, artifact.heads[name].activation)
    return float(same.mean())


def _alike(expected: Array, found: Array, activation: str) -> Array:
    """For each row of logits (rows, labels) whether both mean the same."""
    if activation == "softmax":
        return np.asarray(expected.argmax(1) == found.argmax(1))
    if activation == "sigmoid":
        return np.asarray(((expected > 0) == (found > 0)).all(1))
    return np.asarray((np.abs(expected - found) <= REGRESSION * expected.std(0)).all(1))


def _spans(
    rows: Sequence[GoldenRow],
    outputs: Sequence[Sequence[Array]],
    artifact: Artifact,
    task: Task,
    tokenizer: RowTokenizer,
    parameters: Mapping[str, Any],
) -> list[set[tuple[int, int, str]]]:
    """For each text the spans in its answer, with their labels."""
    windows = [Window(max(len(row.row.ids) for row in rows), "reject")] * len(rows)
    encoded = tokenizer.encode([row.instance for row in rows], windows)
    given = read_parameters(dict(parameters), task.parameters, {})
    spans = []
    for row, output, tokenized in zip(rows, outputs, encoded):
        assert isinstance(tokenized, Tokenized)  # the window holds every row
        answer = task.answer(Example(row.instance, tokenized, [list(output)], given), artifact, tokenizer)
        entries = answer if isinstance(answer, list) else [answer]
        spans.append({(entry["start"], entry["end"], entry.get("entity_group", "")) for entry in entries})
    return spans


def _f1(expected: Sequence[set[Any]], found: Sequence[set[Any]]) -> float:
    """Of all spans together; 1 where neither side has any."""
    both = sum(len(one & other) for one, other in zip(expected, found))
    total = sum(len(one) + len(other) for one, other in zip(expected, found))
    return 2 * both / total if total else 1.0
