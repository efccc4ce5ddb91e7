"""Makes the module for packed rows of a model, and refuses models whose rows cannot be packed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from handlers.worker.rows.lines import write_lines
from handlers.worker.rows.packing import calls_of
from handlers.worker.values import Row, Shape
from marina.compiler.graphs.diagnosis import reason_of
from marina.compiler.sources.base import ModelSource
from marina.engines.model import ExportedModel, row_inputs
from marina.errors import NotPackable

MASK_DIMS = (4, 3)  # dimensions that encoders take, by transformers' release and by architecture
TRIAL_SHAPE = Shape(2, 32, packed=True)
TRIAL_LENGTHS = (3, 17, 9, 4, 12, 5)
MAX_DIFFERENCE = 1e-3  # fraction of the largest output; more than that is not rounding


def with_packed(model: ExportedModel, name: str) -> ExportedModel:
    """The model with its module for packed rows.

    Args:
        model: the exported model.
        name: the name of its spec.

    Raises:
        NotPackable: texts that share a row would get other outputs than alone, or the module fails.
    """
    if model.pack is None:
        raise NotPackable(f"{name}: its rows cannot be packed: {model.unpackable}; leave out shapes.packed")
    reason = ""
    for dims in MASK_DIMS:
        try:
            module = model.pack(dims).float().eval()
            difference = _difference(replace(model, packed=module))
        except Exception as error:  # of code that was not written for packed rows
            reason = reason or reason_of(error)
            continue
        if difference <= MAX_DIFFERENCE:
            return replace(model, packed=module)
        reason = f"texts that share a row differ by {difference:.1g} from the same texts alone"
    architecture = type(_encoder(model.module)).__name__
    raise NotPackable(f"{name}: rows of {architecture} cannot be packed: {reason}; leave out shapes.packed")


def export_for(shapes: Iterable[Shape], source: ModelSource, name: str) -> ExportedModel:
    """Load the model of a source; if any of the shapes is packed, with its module for packed rows.

    Raises:
        SourceError: its files are not what the task needs.
        NotPackable: its rows cannot be packed.
    """
    model = source.export()
    return with_packed(model, name) if any(shape.packed for shape in shapes) else model


def _encoder(module: nn.Module) -> nn.Module:
    """The model of transformers in an exported module."""
    return next((submodule for submodule in module.modules() if hasattr(submodule, "base_model_prefix")), module)


def _difference(model: ExportedModel) -> float:
    """The largest difference of packed outputs from those of the same texts alone, relative to the largest output."""
    generator = np.random.default_rng(0)
    max_id = 20  # every vocabulary has the ids below
    lengths = [min(tokens, model.positions or tokens) for tokens in TRIAL_LENGTHS]
    rows = [Row(generator.integers(4, max_id, tokens).tolist(), [0] * tokens) for tokens in lengths]
    assert model.packed is not None
    (call,) = calls_of(TRIAL_SHAPE, lengths)
    call_rows = [rows[index] for index in call.rows]
    arrays = {name: np.zeros(TRIAL_SHAPE.dims, np.int64) for name in model.packed_inputs}
    write_lines(arrays, call_rows, call.places, model.padding_position, {})
    worst = largest = 0.0
    with torch.no_grad():
        packed_outputs = [output.numpy() for output in model.packed(*map(torch.from_numpy, arrays.values()))]
        for row, (line, number, start) in zip(call_rows, call.places, strict=True):
            single_outputs = model.module(*(torch.tensor([values]) for values in row_inputs(row, model).values()))
            for output, expected in zip(packed_outputs, single_outputs, strict=True):
                actual = (
                    output[line, start : start + len(row.ids)]
                    if model.per_token
                    else output[line * TRIAL_SHAPE.texts_a_line + number]
                )
                # unlike max(), it keeps NaN, which is no small difference
                worst = float(np.maximum(worst, np.abs(actual - expected[0].numpy()).max()))
                largest = max(largest, float(expected.abs().max()))
    return worst / max(largest, 1e-9)
