"""The file of `marina score --job`, with the options of the command in place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marina.cli.score import _job_spec
from marina.errors import MarinaError

NO_OPTIONS: dict[str, dict[str, Any]] = {"input": {"url": None}, "output": {"url": None}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


@pytest.mark.parametrize("output", ["output:", "output: {}", "output: {url: a.csv}"])
def test_an_option_takes_the_place_of_what_the_file_has_or_leaves_empty(file: Path, output: str) -> None:
    file.write_text(f"model: m\ninput: {{url: in.csv}}\n{output}\n")
    spec = _job_spec(file, {**NO_OPTIONS, "output": {"url": "b.csv", "table": None}}, {})
    assert (spec.model, spec.input.url, spec.output.url) == ("m", "in.csv", "b.csv")


@pytest.mark.parametrize("given", [None, "b.csv"])
@pytest.mark.parametrize("output", ["output: a.csv", "output: [a.csv]"])
def test_a_place_that_has_no_fields_is_refused(file: Path, output: str, given: str | None) -> None:
    file.write_text(f"model: m\ninput: {{url: in.csv}}\n{output}\n")
    with pytest.raises(MarinaError, match=r"job\.yaml: output"):
        _job_spec(file, {**NO_OPTIONS, "output": {"url": given}}, {})


def test_a_file_that_cannot_be_read_is_called_a_job(file: Path) -> None:
    with pytest.raises(
        MarinaError, match=r"job\.yaml does not exist; --job takes a YAML file with the fields model, input"
    ):
        _job_spec(file, NO_OPTIONS, {})
    file.write_text("just words")
    with pytest.raises(MarinaError, match=r"job\.yaml holds no fields; --job takes"):
        _job_spec(file, NO_OPTIONS, {})
    file.write_text("model: [m")
    with pytest.raises(MarinaError, match=r"job\.yaml is not YAML: "):
        _job_spec(file, NO_OPTIONS, {})
