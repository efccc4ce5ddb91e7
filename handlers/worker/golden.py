"""Golden rows: instances with the reference model's outputs, on which a worker proves itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.artifact import GOLDEN_FILE, REMEDY, Artifact, read_json
from handlers.worker.calls import run_rows
from handlers.worker.engines import Graph
from handlers.worker.errors import ArtifactError, GoldenError
from handlers.worker.instances import Instance
from handlers.worker.plan import Shape
from handlers.worker.tokenizing import Row, RowTokenizer, Tokenized, Window


class GoldenRow(NamedTuple):
    """An instance, its tokens, and the reference outputs in the order of `Artifact.outputs`."""

    instance: Instance
    row: Row
    outputs: list[npt.NDArray[np.float64]]


def read_golden_rows(folder: Path) -> list[GoldenRow]:
    """The golden rows of an artifact; ArtifactError when they cannot be read."""
    path = folder / GOLDEN_FILE
    try:
        return [
            GoldenRow(
                Instance(entry["text"], entry["text_pair"]),
                Row(entry["ids"], entry["type_ids"]),
                [np.asarray(output, dtype=np.float64) for output in entry["outputs"]],
            )
            for entry in read_json(path)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} does not hold golden rows ({error!r}); {REMEDY}") from None


def check_tokenizer(golden: Sequence[GoldenRow], tokenizer: RowTokenizer, max_length: int) -> None:
    """Compare the tokens of every golden row with the recorded ones.

    Raises:
        GoldenError: the installed `tokenizers` library gives other tokens.
    """
    windows = [Window(max_length, "reject")] * len(golden)
    found = tokenizer.encode([entry.instance for entry in golden], windows)
    for number, (entry, tokenized) in enumerate(zip(golden, found)):
        if not isinstance(tokenized, Tokenized) or tokenized.rows != [entry.row]:
            raise GoldenError(f"the tokenizer gives other tokens for golden row {number} than it did; {REMEDY}")


def check_graph(graph: Graph, shape: Shape, golden: Sequence[GoldenRow], artifact: Artifact) -> float:
    """Run one graph on every golden row that it holds.

    Returns:
        The largest absolute difference to the golden outputs.

    Raises:
        GoldenError: an output is not finite or differs by more than the tolerance.
    """
    fitting = [entry for entry in golden if len(entry.row.ids) <= shape.sequence_length]
    worst = 0.0
    for start in range(0, len(fitting), shape.batch_size):
        entries = fitting[start : start + shape.batch_size]
        results = run_rows(graph, [entry.row for entry in entries], artifact)
        for index, (name, values) in enumerate(zip(artifact.outputs, results)):
            if not np.isfinite(values).all():
                raise GoldenError(f"graph {shape}: output {name!r} is not finite")
            for place, entry in enumerate(entries):
                expected = entry.outputs[index]
                # outputs for tokens go on over the padding, which nobody reads
                real = values[place][tuple(slice(size) for size in expected.shape)]
                difference = np.abs(real - expected).max()
                worst = max(worst, float(difference))
    if worst > artifact.tolerance:
        raise GoldenError(
            f"graph {shape}: outputs differ from the reference model's by {worst:.2g}; "
            f"the tolerance is {artifact.tolerance:.2g}"
        )
    return worst


def check_graphs(graphs: Mapping[Shape, Graph], golden: Sequence[GoldenRow], artifact: Artifact) -> float:
    """`check_graph` for every graph; returns the largest difference of all."""
    return max(check_graph(graph, shape, golden, artifact) for shape, graph in graphs.items())
