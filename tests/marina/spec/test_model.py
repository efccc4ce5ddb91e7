from pathlib import Path
from typing import Any

import pytest
import yaml

from handlers.worker.values import Shape
from marina.engines.neuron import NeuronOptions
from marina.engines.neuronx import NeuronxOptions
from marina.errors import SpecError
from marina.spec import Spec, read_spec
from marina.spec.bundle import read_model
from marina.spec.sections import HeadSpec, Parity, Serving, Shapes, Source
from tests.conftest import ROOT

LEAST = {"name": "m", "task": "text-classification", "source": {"path": "weights"}}


def read(tmp_path: Path, fields: dict[str, Any], overrides: dict[str, Any] | None = None) -> Spec:
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(fields))
    return read_spec(path, overrides)


def test_a_spec_needs_a_name_a_task_and_a_source(tmp_path: Path) -> None:
    spec = read(tmp_path, LEAST)
    assert spec.engine == "openvino"
    assert spec.shapes.listed() == (Shape(1, 32), Shape(1, 128), Shape(8, 32), Shape(8, 128))
    assert spec.workers == 1


def test_every_spec_of_the_repository_is_valid() -> None:
    paths = sorted((ROOT / "models").glob("*.yaml"))
    assert [read_model(path, {}).name for path in paths] == [path.stem for path in paths]


def test_versions_and_revisions_are_texts_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "1.10.yaml"
    path.write_text(
        "name: 1.10\nversion: 010\ntask: text-classification\nsource: {hub: a/b, revision: 0012345}\n"
        "parameters: {top_k: 010}\n"
    )
    spec = read_spec(path)
    assert (spec.name, spec.version, str(spec.source)) == ("1.10", "010", "a/b@0012345")
    assert yaml.safe_dump(spec.parameters) == "top_k: 8\n"


def test_exact_shapes_replace_the_grid(tmp_path: Path) -> None:
    shapes = {"exact": ["8x128", "1x16", "1x16"]}
    assert read(tmp_path, {**LEAST, "shapes": shapes}).shapes.listed() == (Shape(1, 16), Shape(8, 128))
    assert read(tmp_path, LEAST, {"shapes": shapes}).shapes.listed() == (Shape(1, 16), Shape(8, 128))


def test_numbers_may_stand_for_text(tmp_path: Path) -> None:
    spec = read(tmp_path, {**LEAST, "version": 2.0, "core_groups": 4})
    assert (spec.version, spec.core_groups, spec.workers) == ("2.0", "4", 1)
    assert read(tmp_path, {**LEAST, "core_groups": "2,2"}).workers == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": None}, "m.yaml: task: must be .*(given: None)"),
        (
            {"source": {"path": "a", "hub": "b"}},
            "m.yaml: source: give exactly one of hub, path, package and torch",
        ),
        ({"source": {"hub": "a/b"}}, "m.yaml: source: hub and revision go together; revision is missing"),
        ({"source": {"package": "p"}}, "m.yaml: source: package and folder go together; folder is missing"),
        ({"xyz": 1}, "m.yaml: xyz: unknown field; remove it or correct its name$"),
        ({"sauce": 1}, "m.yaml: sauce: unknown field; remove it or correct its name, perhaps to source$"),
        ({"shape": {}}, "correct its name, perhaps to shapes$"),
        ({"batch_size": 8}, "m.yaml: batch_size: .* perhaps to serving.batch_size$"),
        ({"shapes": {"batch_size": 8}}, "m.yaml: shapes.batch_size: .* perhaps to shapes.batch_sizes$"),
        ({"neuron": {"fastmath": "none"}}, "m.yaml: neuron.fastmath: .* perhaps to neuron.fast_math$"),
        (
            {"serving": {"batch_delay_ms": 0}},
            r"m.yaml: serving.batch_delay_ms: .*greater than or equal to 1 \(given: 0\)",
        ),
        ({"shapes": {"exact": ["8"]}}, "m.yaml: shapes.exact: '8' is not a shape; write BATCHxLENGTH"),
        ({"shapes": {"exact": []}}, "m.yaml: shapes.exact: list at least one shape"),
        ({"shapes": {"batch_sizes": [1, 1]}}, "m.yaml: shapes.batch_sizes: list distinct whole numbers"),
        ({"core_groups": "2,x"}, "m.yaml: core_groups: '2,x' is not a list of core group sizes"),
        ({"mode": "data-parallel"}, "m.yaml: spec: mode: data-parallel belongs to the engines neuron and neuronx"),
        (
            {"engine": "neuronx", "mode": "pipeline", "core_groups": "4"},
            "m.yaml: spec: mode: pipeline belongs to the engine neuron",
        ),
        ({"engine": "neuron", "mode": "pipeline"}, "m.yaml: spec: mode: pipeline needs core_groups"),
        (
            {"engine": "neuron", "core_groups": "4"},
            "m.yaml: spec: mode: core-per-worker gives each worker one core; write",
        ),
        ({"engine": "neuron", "precision": "f32"}, "m.yaml: spec: precision: f32 is not to be had on Inf1"),
        ({"engine": "neuronx", "precision": "f32"}, "m.yaml: spec: precision: f32 needs neuronx.auto_cast: none"),
        ({"engine": "neuronx", "precision": "int8"}, "m.yaml: spec: precision: int8 belongs to the engine openvino"),
        ({"neuron": {"fast_math": "fast"}}, "m.yaml: neuron.fast_math: use one of: all, none, fp32-cast-all"),
        ({"neuron": {"fp32_cast": "all"}}, "m.yaml: neuron: give fast_math or fp32_cast"),
        ({"neuron": {"pipeline_cores": 0}}, "m.yaml: neuron.pipeline_cores.*: use auto, or a number of at least 1"),
        ({"neuronx": {"dynamic_batch": True, "inline_weights": False}}, "m.yaml: neuronx: dynamic_batch needs inline"),
        (
            {"engine": "neuronx", "mode": "data-parallel", "core_groups": "2", "neuronx": {"inline_weights": False}},
            "m.yaml: spec: mode: data-parallel needs neuronx.inline_weights: true",
        ),
        ({"name": "token_model"}, "m.yaml: name: TorchServe takes /models/token... for its token API"),
        ({"name": "a b"}, "m.yaml: name: use letters"),
        ({"name": "other"}, "m.yaml: name: 'other' must be the file's name, 'm'"),
        ({"pooling": "mean"}, "m.yaml: spec: pooling belongs to the task sentence-embedding, or to heads"),
        ({"normalize": True}, "m.yaml: spec: normalize belongs to the task sentence-embedding"),
        ({"dimensions": [64]}, "m.yaml: spec: dimensions belong to the task sentence-embedding"),
        ({"dimensions": [0]}, r"m.yaml: dimensions.0: .*greater than or equal to 1 \(given: 0\)"),
        ({"long_text": "window"}, "m.yaml: spec: long_text: window belongs to the tasks token-classification"),
        ({"parameters": {"top_k": 0}}, 'm.yaml: spec: parameters: the parameter "top_k" must be a whole number'),
        ({"heads": {"logits": {"labels": ["a"]}}}, "m.yaml: heads: 'logits' cannot name a head"),
        ({"heads": {"x": {"labels": []}}}, "m.yaml: heads.x.labels: "),
        ({"parity": {"tolerance": 0}}, "m.yaml: parity.tolerance: must be greater than 0"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read(tmp_path, {**LEAST, **change})


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"m\.yaml: task: missing; source: missing"):
        read(tmp_path, {"name": "m"})


def test_questions_are_read_in_windows_where_the_spec_does_not_say(tmp_path: Path) -> None:
    question = {**LEAST, "task": "question-answering"}
    assert read(tmp_path, question).long_text == "window"
    assert read(tmp_path, {**question, "long_text": "reject"}).long_text == "reject"
    assert read(tmp_path, LEAST).long_text == "truncate"


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "is not YAML"), ("- a", "must hold fields"), ("", "must hold fields")]
)
def test_a_file_that_is_no_spec_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        read_spec(path)
    with pytest.raises(SpecError, match="does not exist"):
        read_spec(tmp_path / "n.yaml")


def test_an_error_of_yaml_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("name: m\ntask: a: b\n")
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    assert f'in "{path}", line 2, column 8' in str(caught.value)
    assert len(str(caught.value).splitlines()) > 1


def test_every_field_is_documented() -> None:
    for section in (Spec, Source, Shapes, HeadSpec, Parity, Serving, NeuronOptions, NeuronxOptions):
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"
