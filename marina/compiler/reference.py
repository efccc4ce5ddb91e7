"""The reference: what the eager Hugging Face model answers for each example, without padding."""

from __future__ import annotations

import numpy as np
import torch

from handlers.worker.golden import GoldenRow
from handlers.worker.instances import Instance
from handlers.worker.tokenizing import Row
from marina.compiler.export import ExportedModel

GOLDEN = 8  # rows that travel in the artifact
DIGITS = 7  # decimals of golden outputs: far below any tolerance, far above float64's rounding


def reference_rows(model: ExportedModel, instances: list[Instance], max_length: int) -> list[GoldenRow]:
    """Compute the reference outputs of every instance that fits in `max_length` tokens.

    The weights are float32 as they serve, but the sums are made in float64, so that the outputs,
    rounded to `DIGITS` decimals, do not depend on the machine.
    """
    rows = []
    module = model.module.double()
    try:
        with torch.no_grad():
            for instance in instances:
                row = tokens(model, instance)
                if 0 < len(row.ids) <= max_length:
                    outputs = [output[0].numpy().round(DIGITS) for output in module(*tensors(model, row))]
                    # -0.0 and 0.0 are equal but are not written alike
                    rows.append(GoldenRow(instance, row, [np.asarray(output) + 0.0 for output in outputs]))
    finally:
        module.float()
    return rows


def choose_golden(rows: list[GoldenRow]) -> list[GoldenRow]:
    """A few rows from the shortest to the longest."""
    ordered = sorted(rows, key=lambda row: len(row.row.ids))
    places = np.linspace(0, len(ordered) - 1, min(GOLDEN, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


def tokens(model: ExportedModel, instance: Instance) -> Row:
    """The tokens of an instance, of whatever length."""
    batch = model.tokenizer(instance.text, instance.text_pair, truncation=False, verbose=False)
    # the library's own encoding: transformers leaves out token types that the model does not take
    return Row(list(batch["input_ids"]), list(batch.encodings[0].type_ids))


def tensors(model: ExportedModel, row: Row) -> list[torch.Tensor]:
    """The inputs of one row, each of (1, tokens)."""
    named = {"input_ids": row.ids, "attention_mask": [1] * len(row.ids), "token_type_ids": row.type_ids}
    return [torch.tensor([named[name]]) for name in model.inputs]
