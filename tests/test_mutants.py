"""Mutants: which changes are drawn, which tests try them, and what their verdicts mean."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed; make .venv/mutants")

from tests.mutants.draw import draw
from tests.mutants.judge import Workspace
from tests.mutants.reach import Reach

CODE = """
def least(one: int | None, other: int = 2) -> int | str:
    if one is None or one > other:
        return other
    while one > 5:
        one = one - 1
    return one
"""
TESTS = """
from m import least
def test_the_lesser() -> None:
    assert least(None, 3) == 3
    assert least(4, 3) == 3
    assert least(3) == 2
    assert least(9, 10) == 5
    assert least(5, 9) == 5
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "m.py").write_text(CODE)
    (root / "test_m.py").write_text(TESTS)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def test_places_are_drawn_by_a_seed_and_annotations_are_none(repository: Path) -> None:
    every = draw(repository, ["m.py"], 1000, 1)
    # the default; two conditions, `is`, `or` and `>`; the loop, `>` and its number; `-` and its number
    assert Counter(mutant.line for mutant in every) == {2: 1, 3: 4, 5: 3, 6: 2}
    assert draw(repository, ["m.py"], 3, 1) == draw(repository, ["m.py"], 3, 1)
    assert draw(repository, ["m.py"], 3, 1) != draw(repository, ["m.py"], 3, 2)
    for mutant in every:
        assert mutant.code(repository) != CODE
        assert "def least(one: int | None, other: int = " in mutant.code(repository)
        assert ") -> int | str:" in mutant.code(repository)


def test_a_mutant_is_killed_or_survives(repository: Path, tmp_path: Path) -> None:
    workspace = Workspace(repository, tmp_path / "copy")
    wanted = {"one >= other": "survived", "other: int = 3": "killed", "is not None": "killed"}
    verdicts: dict[str, str] = {}
    for mutant in (mutant for seed in range(20) for mutant in draw(repository, ["m.py"], 1000, seed)):
        for text in wanted.keys() - verdicts.keys():
            if text in mutant.difference(repository):
                verdicts[text] = workspace.judge(mutant, ["test_m.py::test_the_lesser"], 0.1).outcome
                assert (tmp_path / "copy" / "m.py").read_text() == CODE
    assert verdicts == wanted
    assert workspace.judge(draw(repository, ["m.py"], 1, 1)[0], [], 0.0).outcome == "unreached"


def test_tests_that_mirror_a_file_come_first_and_then_the_quickest() -> None:
    lines = {"3": ["a/test_x.py::s", "b/test_plan.py::t", "c/test_y.py::u", "c/test_y.py::v"], "4": []}
    seconds = {"a/test_x.py::s": 20.0, "b/test_plan.py::t": 9.0, "c/test_y.py::u": 25.0, "c/test_y.py::v": 1.0}
    reach = Reach({"a/plan.py": lines}, seconds, "")
    # 30 seconds in all: what is too slow is left out, and the quick tests of its file are not
    assert reach.tests_of("a/plan.py", 3) == ["b/test_plan.py::t", "a/test_x.py::s", "c/test_y.py::v"]
    # what runs at import: all tests of the file
    assert reach.tests_of("a/plan.py", 1) == reach.tests_of("a/plan.py", 3)
    assert reach.tests_of("a/other.py", 1) == []
    assert reach.seconds_of(["a/test_x.py::s", "c/test_y.py::v"]) == 21.0
