"""The interface of tasks for compiling: model export, reference outputs, and a measure of agreement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.values import Outputs
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.reference import Reference
from marina.compiler.tasks.outputs import OutputRule
from marina.engines.model import ExportedModel


class Agreement(NamedTuple):
    """The agreement of answers, from 0 to 1, in the task's own measure, over a number of texts.

    threshold is the field of a spec's `parity` that sets the minimum agreement.
    """

    measure: str
    value: float
    texts: int
    threshold: str = "agreement"


class TaskExporter(NamedTuple):
    """The compiler's part of a task.

    Attributes:
        export: loads a spec's model from a folder, with an attention implementation (None for transformers' own
            choice), and wraps it for compiling. SourceError if the folder does not contain what the task needs.
        open_reference: loads the same model with its own library.
        agree: compares a graph's outputs with the reference's. Its arguments: rows with reference outputs, the graph's
            outputs for each row, the model's signature, its `RowReader`, and its own defaults for request parameters.
        outputs: the rule for the outputs of a TorchScript module.
        recognises: whether the folder of a model, whose config.json has these values, is for this task.
        head: the suffix of transformers' class names for the task's head; None if there is none.
        library_length: the tokens of the longest texts that the library reads, whatever other files of the folder say;
            None if that is not known.
        check_folder: refuses a spec's folder before anything of it is loaded. SourceError names the reason.
    """

    export: Callable[[HuggingFaceFolder, str | None], ExportedModel]
    open_reference: Callable[[HuggingFaceFolder], Reference]
    agree: Callable[[Sequence[GoldenRow], Sequence[Outputs], Signature, Any, Mapping[str, Any]], Agreement]
    outputs: OutputRule
    recognises: Callable[[Path, Mapping[str, Any]], bool]
    head: str | None = None
    check_folder: Callable[[HuggingFaceFolder], None] = lambda _: None
    library_length: Callable[[Path], int | None] = lambda _: None
