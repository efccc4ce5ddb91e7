"""Tensors: only for TorchScript modules; agreement is the cosine with the module's own outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from handlers.worker.archive.signature import Signature
from handlers.worker.members.golden import GoldenRow
from handlers.worker.values import Outputs
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.tasks.agreement import cosines_of
from marina.compiler.tasks.base import Agreement, TaskExporter
from marina.compiler.tasks.outputs import OutputRule
from marina.errors import SourceError


def refuse(source: HuggingFaceFolder, *_: object) -> NoReturn:
    """Refuse folders: the outputs of a model of transformers belong to another task."""
    raise SourceError(f"{source.spec.name}: the task tensors belongs to source.torchscript")


def agree(
    rows: Sequence[GoldenRow], outputs: Sequence[Outputs], _: Signature, __: Any, ___: Mapping[str, Any]
) -> Agreement:
    """The mean cosine between all outputs of a text and the reference's."""
    cosines = []
    for row, text_outputs in zip(rows, outputs, strict=True):
        expected = np.concatenate([output.ravel() for output in row.outputs])
        cropped = [
            output[tuple(map(slice, reference.shape))]
            for output, reference in zip(text_outputs, row.outputs, strict=True)
        ]
        actual = np.concatenate([output.ravel() for output in cropped]).astype(np.float64)
        cosines.append(float(cosines_of(expected[None], actual[None])[0]))
    return Agreement("mean cosine", float(np.mean(cosines)), len(rows), "cosine")


EXPORTER = TaskExporter(refuse, refuse, agree, OutputRule(dims=None), lambda _, __: False)
