"""Plans, shapes and archives are as recorded.

If a change alters them on purpose: `python -m tests.replay.cases > tests/replay/recorded.json`, and say so in
CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.replay.cases import CASES, outputs

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.mark.parametrize("case", range(CASES))
def test_outputs_are_as_recorded(case: int) -> None:
    assert outputs(case) == RECORDED[case]
