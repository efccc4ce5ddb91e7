"""What compiling asks of a task: how its model is exported, what its own library answers, and when answers agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.artifact import Signature
from handlers.worker.golden import GoldenRow
from handlers.worker.rows.tokenizer import RowTokenizer
from handlers.worker.values import Outputs
from marina.compiler.reference import Reference
from marina.engines.model import ExportedModel
from marina.spec import Spec


class Agreement(NamedTuple):
    """How alike answers are, from 0 to 1, in the task's own measure, over a number of texts.

    threshold is the field of a spec's `parity` that says how alike they must be.
    """

    measure: str
    value: float
    texts: int
    threshold: str = "agreement"


class TaskExporter(NamedTuple):
    """The compiler's half of a task.

    Attributes:
        export: loads a spec's model from a folder, with an implementation of attention or None for transformers' own
            choice, and wraps it for compiling. SourceError where the folder does not hold what the task needs.
        open_reference: loads the same model with its own library.
        agree: compares a graph's outputs with the reference's: of rows with reference outputs and the graph's outputs
            for each of them, by the model's signature, its tokenizer, and its own defaults for parameters of requests.
        head: how transformers ends the names of the classes that have a head for the task; None where it has none.
    """

    export: Callable[[Spec, Path, str | None], ExportedModel]
    open_reference: Callable[[Spec, Path], Reference]
    agree: Callable[[Sequence[GoldenRow], Sequence[Outputs], Signature, RowTokenizer, Mapping[str, Any]], Agreement]
    head: str | None = None
