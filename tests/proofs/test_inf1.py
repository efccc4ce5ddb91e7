"""What docs/proofs/inf1.json says of every architecture is what PyTorch 1.13 traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.cases import cases
from tests.proofs.inf1 import FILE, outcome
from tests.proofs.records import check_record

pytestmark = pytest.mark.filterwarnings("ignore")  # of the models' own code
RECORDED = json.loads(FILE.read_text())


def test_the_record_is_of_these_packages() -> None:
    check_record(RECORDED)


@pytest.mark.parametrize("architecture", RECORDED["models"])
def test_the_record_is_what_happens(architecture: str, tmp_path: Path) -> None:
    outcomes = {case.task: outcome(case) for case in cases(tmp_path, "neuron", {architecture: 0})}
    assert without_words(outcomes) == without_words(RECORDED["models"][architecture])


def without_words(outcomes: dict[str, Any]) -> dict[str, Any]:
    """Refusals without their words."""
    return {task: "refused" if "refused" in what else what for task, what in outcomes.items()}
