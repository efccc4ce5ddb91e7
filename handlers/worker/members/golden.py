"""Golden rows: instances with the reference model's outputs, on which a worker checks itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from handlers.worker.archive.artifact import GOLDEN_FILE, REMEDY, read_json
from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Graph
from handlers.worker.errors import ArtifactError, GoldenError, NotFiniteError
from handlers.worker.rows.calls import Graphs, full_row, run_call, write_call
from handlers.worker.rows.packing import calls_of, spread_call
from handlers.worker.tokens.reader import RowReader
from handlers.worker.tokens.tokenizer import Text, Tokenized, Window
from handlers.worker.values import Instance, Row, Shape


class GoldenRow(NamedTuple):
    """An instance as the tokenizer reads it, its tokens, and the reference outputs in `Signature.outputs`' order."""

    instance: Instance
    row: Row
    outputs: list[npt.NDArray[np.float64]]


def read_golden_rows(folder: Path) -> list[GoldenRow]:
    """The golden rows of an artifact; ArtifactError if they cannot be read."""
    path = folder / GOLDEN_FILE
    try:
        return [
            GoldenRow(
                Instance(entry["text"], entry["text_pair"], tuple(entry.get("others", ()))),
                Row(
                    entry["ids"],
                    entry["type_ids"],
                    entry["prompt_tokens"],
                    entry.get("tensors", {}),
                    entry.get("filled", 0),
                ),
                [np.asarray(output, dtype=np.float64) for output in entry["outputs"]],
            )
            for entry in read_json(path)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} does not hold golden rows ({error!r}); {REMEDY}") from None


def check_tokenizer(golden: Sequence[GoldenRow], reader: RowReader, max_length: int) -> None:
    """Compare the tokens of every golden row with the recorded ones.

    Raises:
        GoldenError: the installed `tokenizers` library produces different tokens.
    """
    texts = {
        number: Text(entry.instance, Window(max_length, "reject", prompt_tokens=entry.row.prompt_tokens))
        for number, entry in enumerate(golden)
    }
    tokenized = reader.encode(texts)
    for number, entry in enumerate(golden):
        text = tokenized[number]
        if not isinstance(text, Tokenized) or text.rows != [unfilled(entry.row)]:
            raise GoldenError(f"the tokenizer gives other tokens for golden row {number} than it did; {REMEDY}")


def unfilled(row: Row) -> Row:
    """A row as the tokenizer gives it, before it was filled up."""
    end = len(row.ids) - row.filled
    return row._replace(ids=row.ids[:end], type_ids=row.type_ids[:end], filled=0)


def check_graph(
    graph: Graph, shape: Shape, golden: Sequence[GoldenRow], signature: Signature, tolerance: float
) -> float:
    """Run one graph on every golden row that fits its shape.

    Returns:
        The largest absolute difference from the golden outputs.

    Raises:
        NotFiniteError: an output is not finite.
        GoldenError: an output differs by more than the tolerance.
    """
    _check_finite(graph, shape, golden, signature)
    return check_rows(graph, shape, golden, signature, tolerance)


def check_rows(
    graph: Graph, shape: Shape, golden: Sequence[GoldenRow], signature: Signature, tolerance: float
) -> float:
    """`check_graph` without the checks on rows of padding only and on rows without padding."""
    fitting = [entry for entry in golden if len(entry.row.ids) <= shape.sequence_length]
    worst = 0.0
    for call in calls_of(shape, [len(entry.row.ids) for entry in fitting], fill=True):
        entries = [fitting[index] for index in call.rows]
        outputs = run_call(graph, call, [entry.row for entry in entries], signature)
        for entry, row_outputs in zip(entries, outputs, strict=True):
            for name, values, expected in zip(signature.outputs, row_outputs, entry.outputs, strict=True):
                _refuse_not_finite(values, f"graph {shape}: output {name!r} of golden rows")
                if not _fits(values.shape, expected.shape, len(entry.row.ids), shape.sequence_length):
                    raise GoldenError(
                        f"graph {shape}: output {name!r} of a row has the shape {values.shape}, the reference "
                        f"model's {expected.shape}"
                    )
                # outputs per token continue over the padding, and nothing reads those values
                real = values[tuple(slice(size) for size in expected.shape)]
                # float32 has no more digits: a logit that the model masks with -1e6 has none after the point
                difference = np.abs(real.astype(np.float64) - expected.astype(np.float32)).max()
                worst = max(worst, float(difference))
    if worst > tolerance:
        raise GoldenError(
            f"graph {shape}: outputs differ from the reference model's by {worst:.2g}; the tolerance is {tolerance:.2g}"
        )
    return worst


def _fits(actual: tuple[int, ...], expected: tuple[int, ...], tokens: int, length: int) -> bool:
    """Whether one row's output has the reference's sizes; an output per token continues over the padding."""
    padded = (length, *expected[1:]) if expected[:1] == (tokens,) else expected
    return actual in (expected, padded)


def _check_finite(graph: Graph, shape: Shape, golden: Sequence[GoldenRow], signature: Signature) -> None:
    """Run one graph where attention is known to overflow: on rows of padding only, and on rows without padding.

    In bf16 and fp16 the masks of transformers since 4.21 can become -inf, which makes attention NaN.
    """
    pattern = Row([token for entry in golden for token in entry.row.ids], [])
    if signature.tensors:  # for the user's module only the values of a text are certainly valid
        pattern = max((entry.row for entry in golden), key=lambda row: len(row.ids))
    full_rows = [full_row(signature, shape.sequence_length, pattern)] * shape.batch_size
    for rows, kind in ((full_rows, "full rows"),) if signature.tensors else (([], "padding"), (full_rows, "full rows")):
        write_call(graph, spread_call(shape, tuple(range(len(rows)))), rows, signature)
        for name, values in zip(signature.outputs, graph.run(shape.batch_size), strict=True):
            _refuse_not_finite(values, f"graph {shape}: output {name!r} of {kind}")


def _refuse_not_finite(values: npt.NDArray[np.float32], label: str) -> None:
    if not np.isfinite(values).all():
        raise NotFiniteError(f"{label} is not finite")


def check_graphs(graphs: Graphs, golden: Sequence[GoldenRow], signature: Signature, tolerance: float) -> float:
    """`check_graph` for every graph; returns the largest of all differences."""
    return max(check_graph(graph, shape, golden, signature, tolerance) for shape, graph in graphs.items())
