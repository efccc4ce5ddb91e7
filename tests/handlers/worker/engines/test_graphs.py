"""What every engine's graphs promise."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handlers.worker.artifact import Artifact, read_artifact
from handlers.worker.engines import Setup, open_runtime
from handlers.worker.engines.openvino import has_bf16, import_openvino
from handlers.worker.errors import ArtifactError
from handlers.worker.rows.calls import Graphs, load_graphs, new_inputs, run_rows
from handlers.worker.values import Row, Shape
from tests.conftest import ENGINES, ROOT, needs_openvino
from tests.handlers.worker.conftest import Tiny

ROWS = [Row([2, 9, 8, 7, 3], [0] * 5), Row([2, 3], [0, 0]), Row([2, 5, 5, 3], [0] * 4)]


def load(engine: str, artifact: Artifact, precision: str = "f32") -> Graphs:
    runtime = open_runtime(engine, Setup(1, 1, precision))
    (graphs,) = load_graphs(runtime, artifact.path, artifact.graphs, artifact.signature)
    return graphs


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_are_the_callers_to_keep(compiled: dict[tuple[str, str], Tiny], engine: str) -> None:
    artifact = read_artifact(compiled["text-classification", engine].artifact)
    graph = load(engine, artifact)[Shape(4, 16)]
    first = run_rows(graph, ROWS, artifact.signature)
    kept = [output.copy() for output in first]
    run_rows(graph, ROWS[:1], artifact.signature)
    assert all((output == copy).all() for output, copy in zip(first, kept, strict=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_computed_alike_whatever_was_in_its_place_before(
    compiled: dict[tuple[str, str], Tiny], engine: str
) -> None:
    artifact = read_artifact(compiled["text-classification", engine].artifact)
    graph = load(engine, artifact)[Shape(4, 16)]
    alone = run_rows(graph, [ROWS[1]], artifact.signature)[0][0]
    run_rows(graph, [Row([2, *[9] * 14, 3], [1] * 16)] * 4, artifact.signature)
    assert np.abs(run_rows(graph, [ROWS[1]], artifact.signature)[0][0] - alone).max() < 1e-6


@pytest.mark.parametrize("engine", ENGINES)
def test_a_damaged_graph_is_told_by_its_file(
    compiled: dict[tuple[str, str], Tiny], engine: str, tmp_path: Path
) -> None:
    artifact = read_artifact(compiled["text-classification", engine].artifact)
    broken = tmp_path / "broken"
    broken.write_bytes(b"nothing")
    weights = artifact.folder / str(artifact.graphs[0].weights)
    with pytest.raises(ArtifactError, match=r"cannot load .*broken"):
        open_runtime(engine, Setup(1, 1)).load(broken, weights, [new_inputs(Shape(1, 16), artifact.signature)])


@needs_openvino
def test_graphs_outlive_their_engine(compiled: dict[tuple[str, str], Tiny]) -> None:
    artifact = read_artifact(compiled["sentence-embedding", "openvino"].artifact)
    graphs = load("openvino", artifact)
    expected = run_rows(graphs[Shape(4, 64)], ROWS, artifact.signature)[0]
    for _ in range(3):
        np.empty(10_000_000, dtype=np.uint8).fill(255)  # would lie where freed weights were
        assert (run_rows(graphs[Shape(4, 64)], ROWS, artifact.signature)[0] == expected).all()


@needs_openvino
@pytest.mark.parametrize(("precision", "warnings"), [("bf16", 1), ("int8", 0)])
def test_bf16_is_computed_in_f32_where_it_would_be_imitated(
    compiled: dict[tuple[str, str], Tiny],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    precision: str,
    warnings: int,
) -> None:
    artifact = read_artifact(compiled["sentence-embedding", "openvino"].artifact)

    def outputs(precision: str) -> np.ndarray:
        graphs = load("openvino", artifact, precision)
        return run_rows(graphs[Shape(4, 64)], ROWS, artifact.signature)[0]

    in_f32, in_bf16 = outputs("f32"), outputs(precision)
    native = has_bf16(import_openvino().Core())
    assert (in_bf16 == in_f32).all() == (not native)
    caplog.clear()
    monkeypatch.setattr("handlers.worker.engines.openvino.has_bf16", lambda _: False)
    assert (outputs(precision) == in_f32).all()
    assert len(caplog.records) == warnings  # an int8 graph computes little in bf16


@needs_openvino
@pytest.mark.parametrize("instructions", ["AVX512_CORE_VNNI", "AVX2"])
def test_a_processor_without_bf16_is_recognised(instructions: str) -> None:
    code = """
from handlers.worker.engines.openvino import has_bf16, import_openvino
print(has_bf16(import_openvino().Core()))
"""
    limits = {"ONEDNN_MAX_CPU_ISA": instructions, "OV_CPU_MAX_ISA": instructions}
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **limits}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_torchscript_has_no_other_precision() -> None:
    with pytest.raises(ArtifactError, match="computes in f32, not in bf16"):
        open_runtime("torchscript", Setup(1, 1, "bf16"))
