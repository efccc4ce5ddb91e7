"""Whether a tree is slower than another: the verdict, the plans, and the whole on a small model."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks.quick import __main__ as quick
from benchmarks.quick import plans
from benchmarks.quick.figures import BUSY, CALLS, FIGURES, LONE, Figure
from benchmarks.quick.tree import PARTS, Tree, export
from marina.errors import MarinaError
from marina.project import Project
from tests.conftest import ROOT, make_project, save_tiny_model


def measured(lone: tuple[float, ...], busy: tuple[float, ...]) -> list[quick.Round]:
    """Rounds in which the base has 10 ms and 100 texts/s."""
    return [
        {
            "base": {**dict.fromkeys(FIGURES, 1.0), LONE: 10.0, BUSY: 100.0},
            "this tree": {**dict.fromkeys(FIGURES, 1.0), LONE: milliseconds, BUSY: rate},
        }
        for milliseconds, rate in zip(lone, busy, strict=True)
    ]


@pytest.mark.parametrize(
    ("lone", "busy", "worse"),
    [
        ((10.0, 10.0, 10.0), (100.0, 100.0, 100.0), []),
        ((11.0, 12.0, 10.4), (94.0, 50.0, 96.0), []),  # one round does not agree
        ((11.0, 12.0, 10.6), (94.0, 50.0, 94.9), [LONE, BUSY]),
        ((5.0, 5.0, 5.0), (200.0, 200.0, 200.0), []),  # better
    ],
)
def test_all_rounds_have_to_agree(lone: tuple[float, ...], busy: tuple[float, ...], worse: list[Figure]) -> None:
    rounds = measured(lone, busy)
    assert [figure for figure in FIGURES if quick.is_worse(quick.ratios(rounds, figure))] == worse
    marked = [row[0] for row in quick.rows(rounds) if row[-1] == "worse"]
    assert marked == [figure.name for figure in worse]


def test_a_table_has_medians_and_ratios_above_1_for_better() -> None:
    table = {row[0]: row[1:5] for row in quick.rows(measured((5.0, 8.0, 10.0), (50.0, 100.0, 200.0)))}
    assert table[LONE.name] == ["10", "8", "1.25", "1.00 to 2.00"]
    assert table[BUSY.name] == ["100", "100", "1.00", "0.50 to 2.00"]


def test_plans_are_the_same_each_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "BATCHES", 60)
    totals = []
    for _ in range(2):
        plans.main()
        totals.append(json.loads(capsys.readouterr().out))
    assert totals[0]["calls"] == totals[1]["calls"] > 120
    assert totals[0]["ms"] == totals[1]["ms"] > 100


def repository(folder: Path) -> Path:
    """A repository with this tree's files."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], check=True)
    return folder


def test_the_code_of_a_revision(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (tmp_path / "repository").mkdir()
    made = repository(tmp_path / "repository")
    export(made, "HEAD", code)
    tree = Tree("HEAD", code, make_project(tmp_path / "project"))
    assert tree.python("-c", "import marina; print(marina.__file__)").strip() == str(code / "marina" / "__init__.py")
    with pytest.raises(MarinaError, match=r"HEAD: -c raise SystemExit\(.no.\): no"):
        tree.python("-c", "raise SystemExit('no')")
    with pytest.raises(MarinaError, match=r"git cannot give the revision v9: .*"):
        export(made, "v9", code)


@pytest.mark.long
def test_a_tree_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(repository_with_model(tmp_path))
    monkeypatch.chdir(project.root)
    (only,) = quick.run("HEAD", "direct", count=1, seconds=0.5, bulk_rows=40)
    assert list(only) == ["HEAD", "this tree"]
    for figures in only.values():
        assert set(figures) == set(FIGURES)
        assert all(value > 0 for value in figures.values())
    assert only["HEAD"][CALLS] == only["this tree"][CALLS]


def repository_with_model(folder: Path) -> Path:
    """A repository whose model ava-intent is a tiny one."""
    made = folder / "repository"
    made.mkdir()
    repository(made)
    save_tiny_model(made / "tiny", "text-classification")
    (made / "models").mkdir()
    spec = {"name": quick.MODEL, "task": "text-classification", "source": {"path": "tiny"}}
    text = yaml.safe_dump({**spec, "shapes": {"exact": ["1x16", "4x16", "4x64"]}, "long_text": "truncate"})
    (made / "models" / f"{quick.MODEL}.yaml").write_text(text)
    return made


def test_a_model_that_is_not_trained_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(make_project(tmp_path).root)
    spec = {"name": quick.MODEL, "task": "text-classification", "source": {"path": "build/training/ava-intent"}}
    (project.models / f"{quick.MODEL}.yaml").write_text(yaml.safe_dump(spec))
    monkeypatch.chdir(project.root)
    with pytest.raises(MarinaError, match="ava-intent is not trained here; make build/training/ava-intent"):
        quick.run("HEAD", "direct", count=1, seconds=1, bulk_rows=1)
