"""What holds for every engine, whatever it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handlers.worker.engines import ENGINES, engine_module
from marina.engines import engine_of, engines
from marina.errors import SpecError
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_two_halves_of_one_name(name: str) -> None:
    engine = engine_of(name)
    assert engine.name == name
    assert engine.cores is engine_module(name).CORES
    assert (ROOT / "requirements" / f"{engine.stack}.txt").is_file()


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SpecError, match="unknown engine 'abacus'; there are openvino, torchscript, neuron, neuronx"):
        engine_of("abacus")


def installed(patch: pytest.MonkeyPatch, folder: Path, name: str, value: str) -> None:
    """Install a package that offers an engine of a name."""
    info = folder / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[marina.engines]\n{name} = {value}\n")
    patch.syspath_prepend(str(folder))
    patch.setattr("marina.engines.engines", engines.__wrapped__)


def test_a_package_cannot_replace_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, tmp_path, "openvino", "tests.toy_engine.toy_engine:ENGINE")
    assert engine_of("openvino").name == "openvino"


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, tmp_path, "abacus", "no_such_module:ENGINE")
    with pytest.raises(SpecError, match=r"'abacus'.* as no_such_module:ENGINE, cannot be loaded: ModuleNotFoundError"):
        engine_of("abacus")


def test_nothing_else_compares_the_name_of_an_engine() -> None:
    """By its text, since no type tells the name of an engine from another word."""
    compared = re.compile(rf"[=!]= ?[\"']({'|'.join(engines())})[\"']|in \([\"']({'|'.join(engines())})[\"']")
    for folder in ("handlers", "marina", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not compared.search(path.read_text()), path
