"""`marina shapes` as a whole, on a tiny model."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marina.cli import main
from marina.project import Project
from marina.spec import read_spec
from tests.conftest import WORDS

AddTiny = Callable[..., Path]
Marina = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def marina(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Marina]:
    """Runs the command `marina` in this process, which has imported what takes seconds to import."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(project.root)
        monkeypatch.setattr(sys, "argv", ["marina", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *capsys.readouterr())

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def texts(project: Project) -> str:
    lines = [" ".join(WORDS[: 2 + number % 9]) for number in range(60)]
    (project.root / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")
    return "texts.csv"


@pytest.mark.long
def test_shapes_are_chosen_drawn_and_written(project: Project, add_tiny: AddTiny, texts: str, marina: Marina) -> None:
    path = add_tiny("m")
    result = marina("shapes", "m", "--lengths", texts, "--graphs", "6", "--write")
    assert result.returncode == 0, result.stderr
    shapes = read_spec(path).shapes.listed()
    assert 1 <= len(shapes) <= 6
    assert max(shape.sequence_length for shape in shapes) == 64
    assert result.stdout.startswith(f"shapes: {', '.join(map(str, shapes))}\n")
    assert "written to models/m.yaml" in result.stdout
    assert (project.root / "build" / "shapes" / "m.svg").read_text().startswith("<?xml")

    again = marina("shapes", "m", "--lengths", texts, "--graphs", "6", "--json")
    document = json.loads(again.stdout)
    assert document["considered"]["now"] == [str(shape) for shape in shapes]
    assert 0 <= document["before"][1]["length_waste"] < 1
    assert 0 <= document["before"][1]["empty_waste"] < 1


@pytest.mark.long
def test_shapes_for_jobs_in_bulk_have_one_graph_for_each_length(add_tiny: AddTiny, texts: str, marina: Marina) -> None:
    add_tiny("m")
    result = marina("shapes", "m", "--lengths", texts, "--bulk", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    lengths = [shape.partition("x")[2] for shape in document["considered"]["without packed rows"]]
    assert len(lengths) == len(set(lengths)) > 1
    assert document["after"][1]["rows"] == 10_000
    assert document["after"][1]["empty_waste"] < 0.01


def test_without_texts_a_ladder_with_a_bound_is_proposed(add_tiny: AddTiny, marina: Marina) -> None:
    path = add_tiny("m")
    before = path.read_text()
    result = marina("shapes", "m", "--json")
    document = json.loads(result.stdout)
    assert 0 < document["waste_bound"] < 0.5
    assert document["after"] == []
    assert path.read_text() == before


def test_lengths_that_cannot_be_read_end_in_one_line(project: Project, add_tiny: AddTiny, marina: Marina) -> None:
    add_tiny("m")
    (project.root / "empty.json").write_text("{}")
    for name in ("none.csv", "texts.parquet", "empty.json"):
        result = marina("shapes", "m", "--lengths", name)
        assert result.returncode == 1
        assert result.stderr.startswith(f"error: {name}")
        assert result.stderr.count("\n") == 1
