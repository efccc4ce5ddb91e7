"""What holds for every engine, whatever it is."""

from __future__ import annotations

import re

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


def test_nothing_else_compares_the_name_of_an_engine() -> None:
    """By its text, since no type tells the name of an engine from another word."""
    compared = re.compile(rf"[=!]= ?[\"']({'|'.join(engines())})[\"']|in \([\"']({'|'.join(engines())})[\"']")
    for folder in ("handlers", "marina", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not compared.search(path.read_text()), path
