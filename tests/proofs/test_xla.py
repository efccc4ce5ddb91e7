"""What docs/proofs/xla.json says of every architecture is what PyTorch/XLA does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proofs.cases import cases
from tests.proofs.records import check_record
from tests.proofs.xla import FILE, graphs_of, lower

pytestmark = pytest.mark.filterwarnings("ignore")  # of the models' own code
RECORDED = json.loads(FILE.read_text())


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")


def test_the_record_is_of_these_packages() -> None:
    check_record(RECORDED)


@pytest.mark.parametrize("architecture", RECORDED["models"])
def test_the_record_is_what_happens(architecture: str, tmp_path: Path) -> None:
    lowerings = {case.task: lower(case) for case in cases(tmp_path, "neuronx", {architecture: 0})}
    outcomes = {task: lowering.outcome for task, lowering in lowerings.items()}
    assert kinds(outcomes) == kinds(RECORDED["models"][architecture])
    assert graphs_of(lowerings) == RECORDED["graphs"][architecture]


def kinds(outcomes: dict[str, str]) -> dict[str, str]:
    """Without the words of refusals and the digits of differences."""
    return {task: what if what.startswith("fell back") else what.partition(":")[0] for task, what in outcomes.items()}
