"""Calls that run one after the other, or several at a time on streams of their own."""

from __future__ import annotations

import random
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.artifact import artifact_from, read_json
from handlers.worker.engines import Inputs
from handlers.worker.rows.calls import ModelGraphs, Runner, load_graphs
from handlers.worker.rows.positions import number_positions
from handlers.worker.values import Call, Row, Shape
from tests.conftest import ENGINE
from tests.handlers.worker.conftest import Tiny


class Echo:
    """A graph that gives back the first token of each row, and notes how many run at once."""

    def __init__(self, inputs: Inputs, meeting: threading.Barrier | None) -> None:
        self.inputs = inputs
        self._meeting = meeting

    def run(self, rows: int) -> list[Any]:
        if self._meeting:
            self._meeting.wait(timeout=30)
        return [self.inputs[0][:rows, :1].astype(np.float32)]


class Pretended:
    """An engine of three replicas with some calls at once."""

    replicas = 3

    def __init__(self, at_once: int) -> None:
        self.calls_at_once = at_once
        self.meeting = threading.Barrier(at_once) if at_once > 1 else None

    def load(self, graph: Path, weights: Path | None, inputs: list[Inputs]) -> list[Echo]:
        return [Echo(own, self.meeting) for own in inputs]


@pytest.mark.parametrize("at_once", [1, 4])
def test_rows_come_back_in_order_however_many_calls_run_at_once(
    compiled: dict[tuple[str, str], Tiny], at_once: int
) -> None:
    folder = compiled["text-classification", ENGINE].artifact
    artifact = artifact_from(read_json(folder / "artifact.json"), folder)
    streams = load_graphs(Pretended(at_once), folder.joinpath, artifact.graphs, artifact.signature)  # type: ignore[arg-type]
    assert len(streams) == at_once
    # the places of all replicas are one call's
    assert set(streams[0]) == {Shape(3, 16), Shape(12, 16), Shape(12, 64)}
    rows = [Row([number], [0]) for number in range(100, 124)]
    calls = [Call(Shape(3, 16), tuple(range(start, start + 3))) for start in range(0, 24, 3)]
    for _ in range(3):
        outputs = Runner([ModelGraphs(streams, artifact.signature)]).run(calls, rows)
        assert [float(output[0][0]) for output in outputs if isinstance(output, list)] == [
            float(number) for number in range(100, 124)
        ]


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 3), st.randoms())
def test_positions_are_numbered_as_the_library_numbers_them(
    rows: int, tokens: int, padding: int, chance: random.Random
) -> None:
    """Wherever padding tokens are: a text may contain one."""
    module = import_module("transformers.models.roberta.modeling_roberta")
    own = getattr(module, "create_position_ids_from_input_ids", None)
    own = own or module.RobertaEmbeddings.create_position_ids_from_input_ids
    ids = np.array([[chance.randint(0, 5) for _ in range(tokens)] for _ in range(rows)])
    assert number_positions(ids, padding).tolist() == own(torch.from_numpy(ids), padding).tolist()
