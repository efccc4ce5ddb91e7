"""How graphs are checked after mitigations, with a session that stands for a compiler and a device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.worker.errors import NotFiniteError
from handlers.worker.values import Shape
from marina.compiler.graphs.make import DONE, make_graphs, precision_of
from marina.compiler.record import CompiledGraph
from marina.engines import engine_of
from marina.engines.neuroncores.mitigations import LADDER
from marina.spec import make_spec


@pytest.mark.parametrize(
    ("engine", "finite_from", "expected"),
    [
        ("neuronx", 0, ("bf16", float("inf"))),
        ("neuronx", 2, ("bf16", float("inf"))),
        ("neuronx", 3, ("f32", 1e-3)),  # more-exact casts nothing: then the tolerance is that of f32
        ("neuron", 3, ("bf16", float("inf"))),
    ],
)
def test_graphs_are_checked_in_the_precision_that_they_have(
    tmp_path: Path, engine: str, finite_from: int, expected: tuple[str, float]
) -> None:
    checks = []

    def check_graph(_: Any, __: Any, precision: str, tolerance: float) -> float:
        checks.append((precision, tolerance))
        if len(checks) <= finite_from:
            raise NotFiniteError("graph 1x16: output 0 is not finite")
        return 0.0

    fields = {"name": "m", "task": "text-classification", "source": {"path": "p"}, "engine": engine}
    session: Any = SimpleNamespace(
        job=SimpleNamespace(spec=make_spec(fields), engine=engine_of(engine), shapes=(Shape(1, 16),), runs=True),
        folder=tmp_path,
        max_parallel=1,
        compile_graph=lambda shape, _: CompiledGraph(shape, "graphs/1x16.pt", None, {}, 1.0),
        check_graph=check_graph,
    )
    (tmp_path / DONE).mkdir()
    _, options = make_graphs(session, "bf16", lambda *_: None)
    assert options.mitigations == LADDER[finite_from]
    assert checks[-1] == expected
    assert precision_of(session.job, options) == expected[0]
