import json
from collections.abc import Callable
from pathlib import Path

import pytest

from marina.compiler import compile_model
from marina.compiler.forecast import START_S, forecast, typical_seconds
from marina.compiler.graphs.times import read_builds, read_measured
from marina.errors import CompileError, MarinaError, SourceError
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import ENGINE, no_progress

AddTiny = Callable[..., Path]


def test_what_will_be_compiled_is_said_before_and_found_after(project: Project, add_tiny: AddTiny) -> None:
    spec = read_spec(add_tiny("m"))
    before = forecast(spec, project)
    assert (before.task, before.architecture) == ("text-classification", "BertForSequenceClassification")
    assert before.shapes == ("1x16", "4x64")
    assert (before.engine, before.compiled) == (ENGINE, False)
    assert before.seconds == pytest.approx(typical_seconds(before.weights, 2, False))
    assert not project.artifacts.exists()
    folder = compile_model(spec, project, no_progress).folder
    after = forecast(spec, project)
    assert (after.artifact, after.compiled) == (folder, True)
    weights = sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in (".bin", ".safetensors"))
    assert 0 < before.weights < before.artifact_bytes
    assert weights < before.artifact_bytes * 1.5


def test_the_time_goes_by_what_was_measured_here(project: Project, add_tiny: AddTiny) -> None:
    spec = read_spec(add_tiny("m"))
    (times,) = [compile_model(spec, project, no_progress).folder.with_suffix(".times.json")]
    measured = json.loads(times.read_text())
    usual = typical_seconds(measured["build"]["weights"], 2, False)
    measured["build"]["seconds"] = 3 * usual
    times.write_text(json.dumps(measured))
    other = read_spec(add_tiny("n", shapes={"exact": ["1x16"]}))
    seconds = forecast(other, project).seconds
    assert seconds == pytest.approx(3 * typical_seconds(measured["build"]["weights"], 1, False))
    assert typical_seconds(0, 8, True) == START_S


@pytest.mark.parametrize("content", ["[]", "{", "{}"])
def test_times_that_cannot_be_read_are_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "0.times.json").write_text(content)
    assert read_builds(tmp_path, ENGINE) == []
    assert read_measured(tmp_path / "m" / "0") == {}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"shapes": {"exact": ["1x600"]}}, CompileError, "600 tokens is more than the model can read"),
        ({"task": "token-classification"}, SourceError, "is a BertForSequenceClassification"),
        ({"source": {"path": "nowhere"}}, SourceError, "config.json is missing"),
        ({"examples": "gone.csv"}, MarinaError, "gone.csv"),
    ],
)
def test_what_compiling_would_refuse_is_refused(
    project: Project, add_tiny: AddTiny, fields: dict[str, object], error: type[Exception], message: str
) -> None:
    spec = read_spec(add_tiny("m"), fields)
    with pytest.raises(error, match=message):
        forecast(spec, project)


def test_a_folder_without_a_tokenizer_is_refused(project: Project, add_tiny: AddTiny) -> None:
    spec = read_spec(add_tiny("m"))
    for path in (project.root / "weights" / "m").glob("*token*"):
        path.unlink()
    with pytest.raises(SourceError, match="tokenizer"):
        forecast(spec, project)
