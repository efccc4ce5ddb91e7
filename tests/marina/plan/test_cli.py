"""What `marina plan` and `marina calibrate` refuse, each in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from marina.cli.plan import _workload_of_options
from marina.project import Project
from tests.conftest import write_spec
from tests.end_to_end.conftest import run_marina

PROMISE = ("--promise", "p99 <= 50 ms")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "m", "--rate", "5", *PROMISE), "m has not been calibrated on this machine; marina calibrate m"),
        (("plan", "m", "--rate", "5", *PROMISE, "--host", "direct"), "with the host direct; marina calibrate m --host"),
        (("plan", "m", "--rate", "5", "--promise", "fast"), "say what is promised"),
        (("plan", "m", *PROMISE), "say how many requests per second come"),
        (("plan", "m", "--rate", "-5", *PROMISE), "greater than 0"),
        (("plan", "m", "--rate", "5", *PROMISE, "--confidence", "95"), "promise.confidence: Input should be"),
        (("plan", *PROMISE), "name the models to plan for"),
        (("plan", "m", "--workload", "none.yaml"), "leave out NAME"),
        (("plan", "--workload", "none.yaml", "--host", "direct"), "leave out --host"),
        (("plan", "--workload", "none.yaml", "--write"), "none.yaml cannot be read"),
        (("plan", "--workload", "none.yaml"), "none.yaml cannot be read"),
        (("plan", "m", "--rate", "5", *PROMISE, "--compare", "none.json"), "none.json cannot be read"),
        (("calibrate", "none"), "none"),
        (("calibrate", "labels"), "labels: what a text costs depends on candidate_labels, which the spec does not set"),
    ],
)
def test_it_ends_in_a_line(
    project: Project, add_tiny: Callable[..., Path], arguments: tuple[str, ...], said: str
) -> None:
    add_tiny("m")
    write_spec(project, "labels", task="zero-shot-classification", source={"path": "weights/m"}, shapes={"auto": 64})
    ran = run_marina(project, *arguments)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(("lengths", "taken"), [("day.json", "data/day.json"), ("mix", "mix"), (None, None)])
def test_files_of_options_are_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: str | None, taken: str | None
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    asked = (["m"], None, "p99 <= 50 ms", 1, lengths, "day.csv", None, False, None, None, None, "direct")
    (demand,) = _workload_of_options(*asked).models
    assert demand.log == str(folder / "day.csv")
    assert demand.lengths == (str(tmp_path / taken) if taken and taken != "mix" else taken)
