"""Bundles as people write them, and what is refused before anything is compiled or packed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from handlers.worker.archive.artifact import Artifact, GraphFile
from handlers.worker.archive.contents import contents_of
from handlers.worker.archive.signature import Signature
from handlers.worker.errors import ArtifactError
from handlers.worker.values import Shape
from marina.archive.bundle import check_device_memory, check_pipelines
from marina.errors import CompileError, SpecError
from marina.project import Project
from marina.spec import make_spec, read_spec
from marina.spec.bundle import Bundle, read_bundle, read_members, read_model
from tests.conftest import write_spec

FIELDS: dict[str, Any] = {"task": "text-classification", "source": {"path": "x"}}


def write(project: Project, **fields: Any) -> Path:
    path = project.models / "bot.yaml"
    path.write_text(yaml.safe_dump({"name": "bot", "bundle": ["a", "b"], **fields}))
    return path


@pytest.fixture
def models(project: Project) -> Project:
    write_spec(project, "a", **FIELDS)
    write_spec(project, "b", **FIELDS)
    return project


def test_a_bundle_is_read_with_its_models(models: Project) -> None:
    path = write(models, core_groups="1,1", serving={"batch_size": 8})
    bundle = read_bundle(path)
    assert (bundle.workers, bundle.serving.batch_size) == (2, 8)
    assert [spec.name for spec in read_members(bundle, models.models, {})] == ["a", "b"]
    assert isinstance(read_model(path, {}), Bundle)
    assert read_model(models.models / "a.yaml", {}).name == "a"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bundle": ["a"]}, "at least 2"),
        ({"bundle": ["a", "a"]}, "a model is in it twice"),
        ({"bundle": "a"}, "bundle: must be a list"),
        ({"task": "text-classification"}, "task: unknown field"),
        ({"core_group": "1"}, "core_group: unknown field; remove it or correct its name, perhaps to core_groups"),
        ({"serving": {"max_tokens": 5}}, "serving.max_tokens: unknown field"),
        ({"name": "other"}, "must be the file's name, 'bot'"),
        ({"name": "token-bot"}, "TorchServe takes /models/token"),
        ({"version": "draining"}, "means something else to the server"),
        ({"core_groups": "one"}, "core_groups"),
    ],
)
def test_bundles_that_are_refused(models: Project, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_bundle(write(models, **fields))


def test_models_that_cannot_share_a_worker(models: Project) -> None:
    bundle = read_bundle(write(models, bundle=["a", "c"]))
    with pytest.raises(SpecError, match=r"there is no spec .*c\.yaml"):
        read_members(bundle, models.models, {})
    write_spec(models, "c", **{**FIELDS, "engine": "torchscript"})
    write_spec(models, "a", **{**FIELDS, "engine": "openvino"})
    with pytest.raises(SpecError, match="have the same engine: a openvino, c torchscript"):
        read_members(bundle, models.models, {})
    assert {spec.engine for spec in read_members(bundle, models.models, {"engine": "torchscript"})} == {"torchscript"}
    for name in ("a", "c"):
        write_spec(models, name, **{**FIELDS, "engine": "neuronx"})
    wide = read_bundle(write(models, bundle=["a", "c"], core_groups="2"))
    with pytest.raises(SpecError, match="core_groups do not suit a: mode: core-per-worker gives each worker one core"):
        read_members(wide, models.models, {})


def test_models_of_a_bundle_are_for_the_same_instances(models: Project) -> None:
    bundle = read_bundle(write(models))

    def read(a: dict[str, Any], b: dict[str, Any]) -> None:
        for name, options in (("a", a), ("b", b)):
            write_spec(models, name, **{**FIELDS, "engine": "neuronx", "neuronx": options})
        read_members(bundle, models.models, {})

    read({"target": "inf2"}, {"target": "trn1"})
    read({"target": "trn2"}, {"target": "trn2", "logical_nc_config": 2})
    with pytest.raises(SpecError, match="have the same target: a inf2 or trn1, b trn2 with logical_nc_config 2"):
        read({}, {"target": "trn2"})
    with pytest.raises(SpecError, match=r"the same target: a trn2 with logical_nc_config 1, b trn2 with .* 2"):
        read({"target": "trn2", "logical_nc_config": 1}, {"target": "trn2"})


def test_a_bundle_is_no_single_model(models: Project) -> None:
    with pytest.raises(SpecError, match=r"is a bundle, and this takes a single model; name one of \['a', 'b'\]"):
        read_spec(write(models))


def test_pipelines_fit_the_groups_of_the_bundle() -> None:
    signature = Signature(("input_ids",), ("logits",), 0, 0, "right", {}, {}, {}, None, False)
    artifact = Artifact(Path(), "a", "x", "neuron", "f32", signature, 1e-3, {"pipeline_cores": 16}, (), {}, {})
    bundle = Bundle.model_validate({"name": "bot", "bundle": ["a", "b"], "core_groups": "16,4"})
    with pytest.raises(CompileError, match=r"the graphs of a are pipelines over 16 cores, and .* core_groups have 4"):
        check_pipelines(bundle, [artifact])
    check_pipelines(bundle.model_copy(update={"core_groups": "16"}), [artifact])


@pytest.mark.parametrize(
    "members", [{}, {"..": {}}, {"a/b": {}}, {"a": {"x": "../../y"}}, {"a": {"x": "/y"}}, {"a": 5}, [], None]
)
def test_a_bundle_that_names_files_elsewhere_is_refused(members: Any) -> None:
    with pytest.raises(ArtifactError, match=r"bundle\.json is not complete"):
        contents_of({"name": "bot", "engine": "openvino", "members": members}, bundle=True)
    assert contents_of({"name": "b", "engine": "x", "members": {"a": {}, "c": {"f": "../a/f"}}}, bundle=True).bundle


@pytest.mark.parametrize(
    ("engine", "fields", "groups", "gigabytes", "fits"),
    [
        ("neuron", {}, "1,1", (0.9, 0.9), True),
        ("neuron", {}, "1,1", (1.2, 0.9), False),
        ("neuron", {"mode": "pipeline", "core_groups": "4", "neuron": {"pipeline_cores": 4}}, "4", (3.0, 4.0), True),
        ("neuron", {"mode": "data-parallel", "core_groups": "4"}, "4", (3.0, 4.0), False),
        ("neuronx", {}, None, (9.0, 6.0), True),
        ("neuronx", {}, None, (9.0, 8.0), False),
        ("neuronx", {"neuronx": {"target": "trn2"}}, None, (9.0, 8.0), True),
        ("neuronx", {"neuronx": {"target": "trn2", "logical_nc_config": 1}}, None, (9.0, 8.0), False),
        ("neuronx", {"neuronx": {"target": "inf2", "logical_nc_config": 2}}, None, (9.0, 6.0), True),
        ("torchscript", {}, None, (9.0, 80.0), True),
    ],
)
def test_device_memory_is_added_up(
    engine: str, fields: dict[str, Any], groups: str | None, gigabytes: tuple[float, ...], fits: bool
) -> None:
    signature = Signature(("input_ids",), ("logits",), 0, 0, "right", {}, {}, {}, None, False)
    graph = GraphFile(Shape(1, 16), "graphs/1x16.pt", None, None)
    spec = make_spec({"name": "a", **FIELDS, "engine": engine, **fields})
    compiler = fields.get(engine, {})
    first = Artifact(Path(), "a", spec.task, engine, "f32", signature, 1e-3, compiler, (graph,), {}, {})
    artifacts = [
        replace(first, name=name, files={graph.graph: {"bytes": size * 1e9}})
        for name, size in zip("ab", gigabytes, strict=True)
    ]
    bundle = Bundle.model_validate({"name": "bot", "bundle": ["a", "b"], "core_groups": groups})
    if fits:
        check_device_memory(bundle, spec, artifacts)
        return
    with pytest.raises(CompileError, match=r"bot: its graphs need about .* GB of device memory \(a .* GB, b .* GB\)"):
        check_device_memory(bundle, spec, artifacts)
