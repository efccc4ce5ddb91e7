"""The choice among precisions, with trials that are made up."""

from typing import Any

import pytest

from handlers.worker.instances import Instance
from marina.compiler.agreement import Agreement
from marina.compiler.examples import Examples
from marina.compiler.precision import Trial, candidates, choose
from marina.errors import CompileError
from marina.spec import Spec

OWN = Examples([], [Instance("a")], [Instance("b")])
NONE = Examples([], [], [Instance("b")])


def spec(**fields: Any) -> Spec:
    return Spec(name="m", task="text-classification", source={"path": "p"}, examples="x.csv", **fields)


def test_what_a_spec_lets_be_tried() -> None:
    assert candidates(spec(), OWN) == ("f32",)
    assert candidates(spec(precision="int8"), OWN) == ("int8",)
    assert candidates(spec(precision="auto"), OWN) == ("int8", "bf16", "f32")
    assert candidates(spec(precision="auto"), NONE) == ("bf16", "f32")
    assert candidates(spec(precision="auto", engine="torchscript"), OWN) == ("f32",)


def trials(**seen: tuple[float, float]) -> Any:
    def attempt(name: str) -> Trial:
        milliseconds, agreement = seen[name]
        return Trial(name, milliseconds, None if name == "f32" else Agreement("same label", agreement, 100))

    return attempt


@pytest.mark.parametrize(
    ("int8", "bf16", "expected"),
    [
        ((1.0, 0.99), (2.0, 1.0), "int8"),
        ((1.0, 0.97), (2.0, 1.0), "bf16"),
        ((1.0, 0.97), (2.0, 0.5), "f32"),
        ((9.0, 1.0), (8.0, 1.0), "f32"),
    ],
)
def test_the_fastest_that_keeps_answers_is_kept(
    int8: tuple[float, float], bf16: tuple[float, float], expected: str
) -> None:
    chosen, tried = choose(spec(precision="auto"), OWN, trials(int8=int8, bf16=bf16, f32=(5.0, 1.0)))
    assert chosen == expected
    entries = [trial.entry(spec()) for trial in tried]
    assert [entry["precision"] for entry in entries] == ["int8", "bf16", "f32"]
    assert [entry["passed"] for entry in entries] == [int8[1] >= 0.98, bf16[1] >= 0.98, True]
    assert "milliseconds" not in str(entries)


def test_a_precision_that_changes_answers_is_refused_with_the_numbers() -> None:
    message = r"m: int8 changes answers: same label 0.9000 on 100 held-out texts, at least 0.98 .* parity.agreement"
    with pytest.raises(CompileError, match=message):
        choose(spec(precision="int8"), OWN, trials(int8=(1.0, 0.9)))


def test_f32_alone_is_not_tried() -> None:
    assert choose(spec(), OWN, trials()) == ("f32", [])
