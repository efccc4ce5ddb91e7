"""Which texts advice is given on, and what it is made of, with times that are not measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.worker.values import Shape
from marina.compiler.graphs.times import BUILD_FIELDS
from marina.compiler.sources.folder import ModelFolder
from marina.engines import engines
from marina.errors import NotPackable, SpecError
from marina.project import Project
from marina.shapes import advice
from marina.shapes.advice import CURRENT, PACKED, PLAIN, Advice, advise, probe_shapes
from marina.spec import Spec, read_spec
from marina.spec.sections import MIN_PACKED_LENGTH
from tests.conftest import no_progress

AddTiny = Callable[..., Path]
WEIGHTS = 1_000_000
SHAPES = ["1x16", "4x16", "1x64", "4x64"]


def milliseconds(shape: Shape) -> float:
    """A call costs a millisecond, and each token a little."""
    return 1.0 + shape.tokens / 100


@pytest.fixture
def spec(project: Project, add_tiny: AddTiny, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """A spec with examples of 5 tokens, whose graphs take `milliseconds`, and cannot be packed."""
    (project.root / "examples.csv").write_text("tokens\n" + "5\n" * 40)
    path = add_tiny("m", examples="examples.csv", shapes={"exact": SHAPES}, serving={"batch_size": 8})
    times = {shape: milliseconds(shape) for shape in probe_shapes(64, packed=False).listed()}
    measured = {BUILD_FIELDS[0]: {"a": 2.0, "b": 4.0}, BUILD_FIELDS[1]: {"a": 10.0, "b": 30.0}}
    monkeypatch.setattr(advice, "_probe", lambda *_: (project.root, "it is only a test"))
    monkeypatch.setattr(advice, "_time", lambda *_: times)
    monkeypatch.setattr(advice, "read_measured", lambda _: measured)
    monkeypatch.setattr(ModelFolder, "count_weights", lambda _: WEIGHTS)
    return read_spec(path)


def advised(spec: Spec, project: Project, texts: Path | list[int] | None, **options: Any) -> Advice:
    given: dict[str, Any] = {"graphs": 3, "price": 0.01, **options}
    return advise(spec, project, texts, progress=no_progress, **given)


def test_lengths_that_are_given_come_before_the_specs_examples(spec: Spec, project: Project) -> None:
    assert advised(spec, project, [7, 9, 70, 64]).lengths == [7, 9, 64, 64]
    (project.root / "others.csv").write_text("tokens\n" + "30\n" * 10)
    assert advised(spec, project, project.root / "others.csv").lengths == [30] * 10
    assert advised(spec, project, None).lengths == [5] * 40


def test_without_texts_a_ladder_is_made(spec: Spec, project: Project) -> None:
    found = advised(spec.model_copy(update={"examples": None}), project, None, graphs=4)
    assert (found.lengths, found.before, found.after) == ([], [], [])
    assert list(found.considered) == [CURRENT]
    assert found.waste_bound is not None
    assert 0 < found.waste_bound < 1
    assert max(shape.sequence_length for shape in found.shapes) == 64


def test_shapes_are_chosen_on_one_half_and_judged_on_the_other(spec: Spec, project: Project) -> None:
    # every second text is long
    found = advised(spec, project, [8, 64] * 20, graphs=2)
    chosen = sorted(shape.sequence_length for shape in found.shapes)
    assert (chosen[0], chosen[-1]) == (8, 64)
    assert found.considered[CURRENT].shapes == spec.shapes.listed()
    assert found.considered[PLAIN].shapes == found.shapes
    assert PACKED not in found.considered
    assert found.after == found.considered[PLAIN].effects
    assert found.before == found.considered[CURRENT].effects
    alone, full = found.before
    # 64 tokens alone in 1x64, and eight of them twice in 4x64: no padding
    assert (alone.length_waste, full.length_waste) == pytest.approx((0.0, 0.0))


def test_what_compiling_takes_is_the_mean(spec: Spec, project: Project) -> None:
    found = advised(spec, project, [8, 64] * 4)
    assert (found.seconds, found.megabytes) == pytest.approx((3.0, 20.0))
    assert found.unpacked_reason == "it is only a test"
    assert found.error == pytest.approx(0.0, abs=1e-6)


def test_graphs_fit_into_a_devices_memory(spec: Spec, project: Project) -> None:
    rooms = {room.device: room for room in advised(spec, project, [8, 64] * 4).graph_limits}
    known = [memory for engine in engines().values() for memory in engine.memories]
    assert {memory.device for memory in known} == set(rooms)
    for memory in known:
        bytes_a_graph = memory.bytes_a_weight * WEIGHTS
        assert rooms[memory.device] == (memory.device, memory.key, int(memory.bytes_a_core / bytes_a_graph))


def test_jobs_in_bulk_have_a_graph_for_each_length(spec: Spec, project: Project) -> None:
    found = advised(spec, project, [8, 8, 64, 64] * 10, graphs=2, bulk=True)
    assert [shape.sequence_length for shape in found.shapes] == [8, 64]
    _, full = found.after
    # all rows of a length fill its graph, but for the last call
    assert full.empty_waste < 0.01


def test_a_model_that_cannot_be_packed_is_timed_without(
    spec: Spec, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    compiled = []

    def compile_model(wanted: Spec, *_: object) -> Any:
        compiled.append(wanted.shapes)
        if any(shape.packed for shape in wanted.shapes.listed()):
            raise NotPackable("m: its rows cannot be packed; leave out packed shapes")
        return type("Compiled", (), {"folder": Path("artifact")})

    monkeypatch.setattr(advice, "compile_model", compile_model)
    assert advice._probe(spec, project, 64, no_progress) == (Path("artifact"), "its rows cannot be packed")
    assert compiled == [probe_shapes(64), probe_shapes(64, packed=False)]


def test_few_shapes_tell_the_times_of_all() -> None:
    plain = probe_shapes(128, packed=False).listed()
    assert {str(shape) for shape in plain} == {"1x16", "8x16", "32x16", "1x64", "8x64", "1x128", "4x128"}
    packed = set(probe_shapes(128).listed()) - set(plain)
    assert packed == {Shape(1, 64, True), Shape(1, 128, True), Shape(4, 128, True), Shape(8, 64, True)}
    assert probe_shapes(MIN_PACKED_LENGTH - 1) == probe_shapes(MIN_PACKED_LENGTH - 1, packed=False)
    assert any(shape.packed for shape in probe_shapes(MIN_PACKED_LENGTH).listed())


def test_graphs_keep_to_the_memory_of_a_worker(spec: Spec, project: Project) -> None:
    texts = list(range(4, 64)) * 4
    free = advised(spec, project, texts, graphs=None, price=0.0001)
    # a worker without graphs takes 250 MB, and each graph 20
    limited = advised(spec.model_copy(update={"memory_mb": 295}), project, texts, graphs=None, price=0.0001)
    assert len(limited.shapes) == 2 < len(free.shapes)
    with pytest.raises(SpecError, match="memory_mb: 260 has room for no graph"):
        advised(spec.model_copy(update={"memory_mb": 260}), project, texts)
