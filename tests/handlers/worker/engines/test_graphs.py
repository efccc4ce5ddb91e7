"""What every engine's graphs promise."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handlers.worker.archive.artifact import Artifact, read_artifact
from handlers.worker.archive.signature import Signature
from handlers.worker.engines import Graph, GraphLoad, Setup, load_all, open_runtime
from handlers.worker.engines.openvino import has_bf16, import_openvino
from handlers.worker.errors import ArtifactError
from handlers.worker.rows.calls import Graphs, load_graphs, new_inputs, write_rows
from handlers.worker.values import Outputs, Row, Shape
from tests.conftest import ENGINES, ROOT, needs_openvino
from tests.handlers.worker.conftest import Tiny

ROWS = [Row([2, 9, 8, 7, 3], [0] * 5), Row([2, 3], [0, 0]), Row([2, 5, 5, 3], [0] * 4)]


def load(engine: str, artifact: Artifact, precision: str = "f32") -> Graphs:
    runtime = open_runtime(engine, Setup(1, 1, precision))
    (graphs,) = load_graphs(runtime, artifact.path, artifact.graphs, artifact.signature)
    return graphs


def run_rows(graph: Graph, rows: Sequence[Row], signature: Signature) -> Outputs:
    """Run one graph on at least one row; the first dimension of each output is the rows."""
    write_rows(graph, rows, signature)
    return graph.run(len(rows))


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
@pytest.mark.parametrize("task", ["sentence-embedding", "text-classification"])
def test_graphs_answer_alone_as_they_do_together(compiled: dict[tuple[str, str], Tiny], task: str) -> None:
    artifact = read_artifact(compiled[task, "openvino"].artifact)
    together = load("openvino", artifact)
    for file in artifact.graphs:
        inputs = [new_inputs(file.shape, artifact.signature)]
        (alone,) = open_runtime("openvino", Setup(1, 1)).load(*file.paths(artifact.path), inputs)
        rows = ROWS[: file.shape.batch_size]
        expected = run_rows(alone, rows, artifact.signature)
        outputs = run_rows(together[file.shape], rows, artifact.signature)
        assert all((output == other).all() for output, other in zip(outputs, expected, strict=True))


@needs_openvino
def test_graphs_with_other_inputs_are_loaded_together(tmp_path: Path) -> None:
    openvino = import_openvino()
    from openvino import opset8

    integers, floats = np.dtype(np.int64), np.dtype(np.float32)
    input_types: list[list[np.dtype[Any]]] = [
        [integers],
        [floats, integers],
        [integers, floats, integers, floats],
        [floats],
        [np.dtype(np.int32), integers],
    ]
    loads, expected = [], []
    for number, types in enumerate(input_types):
        shapes = [[2, 1 + number + place] for place in range(len(types))]
        parameters = [opset8.parameter(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
        sums = [
            opset8.reduce_sum(opset8.convert(parameter, floats), opset8.constant(np.array([1])), True)
            for parameter in parameters
        ]
        file = tmp_path / f"{number}.xml"
        openvino.save_model(openvino.Model([opset8.concat(sums, 1)], parameters), file)
        arrays = [
            (1 + number + np.arange(np.prod(shape))).reshape(shape).astype(dtype)
            for shape, dtype in zip(shapes, types, strict=True)
        ]
        loads.append(GraphLoad(file, file.with_suffix(".bin"), [arrays]))
        expected.append(np.stack([array.sum(1) for array in arrays], 1))
    graphs = load_all(open_runtime("openvino", Setup(1, 1)), loads)
    for number in [0, 1, 2, 3, 4, 2, 0, 4]:
        (output,) = graphs[number][0].run(2)
        assert (output == expected[number]).all()


KEEPS_WEIGHTS = """
import sys
from pathlib import Path

import numpy as np
import psutil

from handlers.worker.engines import GraphLoad, Setup, open_runtime
from handlers.worker.engines.openvino import import_openvino

openvino = import_openvino()
from openvino import opset8

folder, rows = Path(sys.argv[1]), range(1, 1 + int(sys.argv[2]))
weights = opset8.constant(np.random.default_rng(0).random((4096, 4096), np.float32))  # 64 MB
for count in rows:
    values = opset8.parameter([count, 4096], np.float32)
    product = opset8.matmul(values, weights, False, True)
    openvino.save_model(openvino.Model([product], [values]), folder / f"{count}.xml")
runtime = open_runtime("openvino", Setup(1, 1))
loads = [
    GraphLoad(folder / f"{count}.xml", folder / "1.bin", [[np.ones((count, 4096), np.float32)]]) for count in rows
]
before = psutil.Process().memory_full_info().uss
graphs = runtime.load_all(loads)
print((psutil.Process().memory_full_info().uss - before) / 1e6)
"""


@needs_openvino
def test_graphs_that_are_loaded_together_keep_their_weights_once(tmp_path: Path) -> None:
    single, four = (
        float(
            subprocess.run(
                [sys.executable, "-c", KEEPS_WEIGHTS, str(tmp_path), count],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for count in ("1", "4")
    )
    assert 60 < single <= four < 100


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
