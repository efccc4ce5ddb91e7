"""Specs that leave their shapes to Marina."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.worker.values import Shape
from marina.errors import SpecError
from marina.project import Project
from marina.shapes.auto import with_known_shapes, with_shapes
from marina.spec import Spec, read_spec
from tests.conftest import WORDS, no_progress

AddTiny = Callable[..., Path]


def chosen(path: Path, project: Project) -> tuple[Shape, ...]:
    return with_shapes(read_spec(path), project, no_progress).shapes.listed()


def kept_choices(path: Path) -> list[list[str]]:
    return list(json.loads(path.read_text())["choices"].values())


def replace_choice(path: Path) -> None:
    """Let the only choice be another one."""
    document = json.loads(path.read_text())
    (key,) = document["choices"]
    path.write_text(json.dumps({**document, "choices": {key: ["1x64"]}}))


def test_without_examples_it_is_a_ladder_with_packed_shapes(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", shapes={"auto": 64})
    assert chosen(path, project) == (
        *(Shape(1, length, True) for length in (16, 24, 32, 48, 64)),
        Shape(4, 64, True),
    )


def test_the_choice_is_kept_until_the_spec_changes(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", shapes={"auto": 64})
    first = chosen(path, project)
    kept = project.root / "build" / "shapes" / "m.json"
    replace_choice(kept)
    assert chosen(path, project) == (Shape(1, 64),)
    path.write_text(path.read_text().replace("auto: 64", "auto: 48"))
    assert chosen(path, project) not in (first, (Shape(1, 64),))


def test_another_limit_of_memory_is_another_choice(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", shapes={"auto": 64})
    chosen(path, project)
    replace_choice(project.root / "build" / "shapes" / "m.json")
    path.write_text(path.read_text() + "memory_mb: 400\n")
    assert chosen(path, project) != (Shape(1, 64),)


@pytest.mark.parametrize("engine", ["neuron", "neuronx"])
def test_a_choice_with_packed_shapes_ends_where_the_engine_refuses_them(
    project: Project, add_tiny: AddTiny, engine: str
) -> None:
    path = add_tiny("m", shapes={"auto": 64}, engine=engine)
    assert any(shape.packed for shape in chosen(path, project))
    fallback = "fallback: false, " if engine == "neuron" else ""
    path.write_text(path.read_text() + f"{engine}: {{{fallback}dynamic_batch: true}}\n")
    assert not any(shape.packed for shape in chosen(path, project))


def test_much_memory_is_no_reason_for_more_graphs(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", shapes={"auto": 64})
    usual = chosen(path, project)
    path.write_text(path.read_text() + "memory_mb: 100000\n")
    assert chosen(path, project) == usual


def test_a_variant_of_a_spec_leaves_its_choice_alone(project: Project, add_tiny: AddTiny) -> None:
    path = add_tiny("m", shapes={"auto": 64})
    spec = read_spec(path)
    assert with_known_shapes(spec, project) is spec
    chosen(path, project)
    replace_choice(project.root / "build" / "shapes" / "m.json")
    with_shapes(spec.model_copy(update={"core_groups": "1,1"}), project, no_progress)
    assert chosen(path, project) == (Shape(1, 64),)
    assert with_known_shapes(spec, project).shapes.listed() == (Shape(1, 64),)


def test_missing_examples_are_named(project: Project, add_tiny: AddTiny) -> None:
    with pytest.raises(SpecError, match=r"m: examples: No such file or directory .*missing\.csv"):
        chosen(add_tiny("m", shapes={"auto": 64}, examples="missing.csv"), project)


@pytest.mark.long
def test_with_examples_the_choice_is_kept_until_they_change(project: Project, add_tiny: AddTiny) -> None:
    texts = project.root / "texts.csv"
    texts.write_text("text\n" + "\n".join(" ".join(WORDS[: 2 + number % 9]) for number in range(60)) + "\n")
    path = add_tiny("m", shapes={"auto": 64}, examples="texts.csv")
    first = chosen(path, project)
    assert max(shape.sequence_length for shape in first) == 64
    kept = project.root / "build" / "shapes" / "m.json"
    assert kept_choices(kept) == [[str(shape) for shape in first]]
    assert with_known_shapes(read_spec(path), project).shapes.listed() == first

    replace_choice(kept)
    assert chosen(path, project) == (Shape(1, 64),)
    texts.write_text(texts.read_text() + "another text\n")
    again = chosen(path, project)
    assert again != (Shape(1, 64),)
    assert kept_choices(kept) == [["1x64"], [str(shape) for shape in again]]
    kept.write_text("{")
    assert chosen(path, project) != (Shape(1, 64),)


def test_auto_stands_alone(add_tiny: AddTiny) -> None:
    assert read_spec(add_tiny("m", shapes="auto")).shapes.auto == 128
    with pytest.raises(SpecError, match="auto chooses all shapes"):
        read_spec(add_tiny("n", shapes={"auto": 64, "packed": ["1x64"]}))


def test_shapes_that_are_listed_stay(project: Project, add_tiny: AddTiny) -> None:
    spec: Spec = read_spec(add_tiny("m", shapes={"exact": ["1x16"]}))
    assert with_shapes(spec, project, no_progress) is spec
