"""Packed graphs of every engine: rows that share a line answer as they do alone, whatever their neighbours are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from handlers.worker.archive.artifact import Artifact, read_artifact
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.members.golden import check_graph, read_golden_rows
from handlers.worker.rows.calls import Graphs, load_graphs, run_all, run_call
from handlers.worker.rows.packing import calls_of
from handlers.worker.values import Row, Shape
from marina.compiler import compile_model
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINES, no_progress, save_tiny_model, write_spec

ALONE, PACKED = Shape(1, 64), Shape(2, 64, packed=True)
TASKS = ("text-classification", "token-classification", "question-answering", "sentence-embedding")


@pytest.fixture(params=[(engine, task) for engine in ENGINES for task in TASKS], ids="-".join)
def loaded(request: pytest.FixtureRequest, project: Project) -> tuple[Artifact, Graphs, list[Row]]:
    """An artifact with an ordinary and a packed graph, both loaded, and random rows."""
    engine, task = request.param
    save_tiny_model(project.root / "weights", task)
    fields: dict[str, Any] = {
        "task": task,
        "source": {"path": "weights"},
        "shapes": {"exact": [str(ALONE), str(PACKED)]},
    }
    path = write_spec(project, "m", **fields)
    artifact = read_artifact(compile_model(read_spec(path, {"engine": engine}), project, no_progress).folder)
    (graphs,) = load_graphs(open_runtime(engine, Setup(1, 1)), artifact.path, artifact.graphs, artifact.signature)
    source = random.Random(0)
    rows = []
    for _ in range(12):
        tokens = source.choice([4, 6, 9, 17, 30, 64])
        rows.append(Row([source.randrange(5, 60) for _ in range(tokens)], [0] * tokens))
    return artifact, graphs, rows


def test_rows_together_answer_as_alone(loaded: tuple[Artifact, Graphs, list[Row]]) -> None:
    artifact, graphs, rows = loaded
    together = run_all(graphs[PACKED], PACKED, rows, artifact.signature)
    alone = run_all(graphs[ALONE], ALONE, rows, artifact.signature)
    for row, found, expected in zip(rows, together, alone, strict=True):
        for one, other in zip(found, expected, strict=True):
            own = other[: len(row.ids)] if artifact.signature.per_token else other
            assert np.abs(one - own).max() < 2e-5
    assert check_graph(graphs[PACKED], PACKED, read_golden_rows(artifact.folder), artifact.signature, 1e-4) < 1e-4


def test_neighbours_change_no_bit(loaded: tuple[Artifact, Graphs, list[Row]]) -> None:
    artifact, graphs, rows = loaded
    (call, *_) = calls_of(PACKED, [len(row.ids) for row in rows])
    own = [rows[index] for index in call.rows]
    others = [Row([7] * len(row.ids), row.type_ids) for row in own]
    first = run_call(graphs[PACKED], call, own, artifact.signature)
    for place, row in enumerate(own):
        second = run_call(graphs[PACKED], call, [*others[:place], row, *others[place + 1 :]], artifact.signature)
        for one, other in zip(first[place], second[place], strict=True):
            assert (one == other).all()
