"""Packed rows against the same rows alone, in float32, for every architecture and task."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from handlers.worker.rows.calls import run_all, run_call
from handlers.worker.rows.packing import calls_of
from handlers.worker.values import Row, Shape
from marina.compiler.graphs.diagnosis import TorchGraph
from marina.compiler.graphs.packable import with_packed
from marina.compiler.record import signature_of
from marina.compiler.sources.folder import ModelFolder
from marina.engines.model import ExportedModel
from marina.errors import NotPackable
from marina.spec import make_spec
from tests.handlers.worker.tasks.architectures import ARCHITECTURES, SUFFIXES, save_model

SHAPE = Shape(3, 48, packed=True)
TOLERANCE = 2e-5
ONLY_PADDING = ("albert", "distilbert")  # their code takes no other masks in older transformers


def packed_model(folder: Path, architecture: str, task: str) -> ExportedModel:
    save_model(folder, architecture, task)
    spec = {"name": "m", "task": task, "source": {"path": str(folder)}, "shapes": {"exact": [str(SHAPE)]}}
    model = ModelFolder(make_spec(spec), folder).export()
    try:
        return with_packed(model, "m")
    except NotPackable as refusal:
        if architecture in ONLY_PADDING and version("transformers").startswith("4."):
            pytest.skip(str(refusal))
        raise


def random_rows(source: random.Random, count: int) -> list[Row]:
    found = []
    for _ in range(count):
        tokens = source.choice([4, 5, 7, 11, 20, 48])
        own = [source.randrange(4, 60) for _ in range(tokens)]
        found.append(Row(own, [0] * tokens))
    return found


@pytest.mark.parametrize("task", [task for task in SUFFIXES if task != "sparse-embedding"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_rows_answer_like_rows_alone(architecture: str, task: str, tmp_path: Path) -> None:
    model = packed_model(tmp_path, architecture, task)
    signature = signature_of(model)
    graph = TorchGraph(model.module_for(SHAPE), SHAPE, signature)
    alone = Shape(1, 48)
    single = TorchGraph(model.module, alone, signature)
    for seed in range(3):
        rows = random_rows(random.Random(seed), 14)
        packed, expected = run_all(graph, SHAPE, rows, signature), run_all(single, alone, rows, signature)
        for row, found, wanted in zip(rows, packed, expected, strict=True):
            for one, other in zip(found, wanted, strict=True):
                own = other[: len(row.ids)] if model.per_token else other
                assert one.shape == own.shape
                assert np.abs(one - own).max() <= TOLERANCE * max(1.0, float(np.abs(own).max()))


@pytest.mark.parametrize("task", ["text-classification", "token-classification"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_neighbour_changes_nothing(architecture: str, task: str, tmp_path: Path) -> None:
    """Bit for bit: attention to a neighbour is 0, not small."""
    model = packed_model(tmp_path, architecture, task)
    signature = signature_of(model)
    graph = TorchGraph(model.module_for(SHAPE), SHAPE, signature)
    source = random.Random(0)
    for _ in range(5):
        rows = random_rows(source, 6)
        (call, *_) = calls_of(SHAPE, [len(row.ids) for row in rows])
        first = run_call(graph, call, [rows[index] for index in call.rows], signature)
        kept = source.randrange(len(call.rows))
        others = [
            rows[index]
            if place == kept
            else Row([source.randrange(4, 60) for _ in rows[index].ids], [0] * len(rows[index].ids))
            for place, index in enumerate(call.rows)
        ]
        second = run_call(graph, call, others, signature)
        for one, other in zip(first[kept], second[kept], strict=True):
            assert (one == other).all()


def test_a_window_that_the_trial_cannot_reach_is_refused(tmp_path: Path) -> None:
    model = packed_model(tmp_path, "bert", "text-classification")
    model.module.model.config.sliding_window = 512
    with pytest.raises(NotPackable, match=r"cannot be packed: its tokens attend to 512 others \(sliding_window\)"):
        with_packed(model, "m")


def test_what_mixes_tokens_of_a_row_is_refused_by_name(tmp_path: Path) -> None:
    class Mixing(torch.nn.Module):  # type: ignore[misc]
        """Adds the mean of the row to every output."""

        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(output + inputs[0].float().mean() for output in self.module(*inputs))

    class Undefined(Mixing):
        """Gives NaN."""

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(output * torch.nan for output in self.module(*inputs))

    model = packed_model(tmp_path, "bert", "text-classification")
    pack = model.pack
    assert pack is not None
    mixing = replace(model, pack=lambda dims: Mixing(pack(dims)))
    with pytest.raises(NotPackable, match=r"m: rows of Bert\w* cannot be packed: texts that share a row differ by"):
        with_packed(mixing, "m")
    undefined = replace(model, pack=lambda dims: Undefined(pack(dims)))
    with pytest.raises(NotPackable, match=r"cannot be packed: texts that share a row differ by nan from"):
        with_packed(undefined, "m")
    with pytest.raises(NotPackable, match="m: its rows cannot be packed: it is not known how a TorchScript module"):
        with_packed(replace(model, pack=None), "m")
