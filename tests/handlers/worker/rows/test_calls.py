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

from handlers.worker.archive.artifact import artifact_from, read_json
from handlers.worker.archive.signature import POOLING_MASK, POSITION_IDS, SEGMENTS, Signature
from handlers.worker.engines import Inputs
from handlers.worker.rows.calls import ModelGraphs, Runner, load_graphs, write_rows
from handlers.worker.rows.lines import number_positions, write_lines
from handlers.worker.tasks.columns import same
from handlers.worker.values import Call, Place, Row, Shape
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
        outputs = Runner([ModelGraphs(streams, artifact.signature)], [same]).run(calls, rows)
        first = {index: float(output[0][0]) for index, output in outputs.items() if isinstance(output, list)}
        assert first == {index: float(100 + index) for index in range(24)}


INPUTS = ("input_ids", "attention_mask", "token_type_ids", POOLING_MASK)
ROWS = [Row([4, 5, 6], [0, 0, 1], prompt_tokens=1), Row([8], [0])]


def test_rows_are_padded_on_the_right() -> None:
    signature = Signature(INPUTS, ("out",), 3, 2, "right", {}, {}, {}, None, False)
    pad, pad_type = signature.pad_token_id, signature.pad_token_type_id
    graph = Echo([np.full((3, 4), 7) for _ in INPUTS], None)
    write_rows(graph, ROWS, signature)
    assert {name: array.tolist() for name, array in zip(INPUTS, graph.inputs, strict=True)} == {
        "input_ids": [[4, 5, 6, pad], [8, pad, pad, pad], [pad] * 4],
        "attention_mask": [[1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]],
        "token_type_ids": [[0, 0, 1, pad_type], [0, pad_type, pad_type, pad_type], [pad_type] * 4],
        POOLING_MASK: [[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]],
    }


def test_rows_of_a_line_follow_each_other() -> None:
    names = ("input_ids", "token_type_ids", SEGMENTS, POSITION_IDS, POOLING_MASK)
    arrays = {name: np.full((1, 5), 7) for name in names}
    write_lines(arrays, ROWS, [Place(0, 0, 0), Place(0, 1, 3)], None, {"input_ids": 9})
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "input_ids": [[4, 5, 6, 8, 9]],
        "token_type_ids": [[0, 0, 1, 0, 0]],
        SEGMENTS: [[0, 0, 0, 1, -1]],
        POSITION_IDS: [[0, 1, 2, 0, 0]],
        POOLING_MASK: [[0, 1, 1, 1, 0]],
    }


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
