"""What it takes to serve an archive."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from marina.server import situation
from marina.server.run.state import Ports, Registered, RunState
from marina.server.situation import STEPS, Situation, Step, situation_of

ARCHIVE = Path("m.mar")


def test_every_situation_has_a_step() -> None:
    assert set(STEPS) == set(itertools.product(Situation, (False, True)))
    for (before, with_outage), step in STEPS.items():
        assert (step is Step.REPLACE) <= (with_outage or before is Situation.FAILED)  # nothing else may cost answers
        assert (step is Step.REFUSE) <= (not with_outage)


@pytest.mark.parametrize(
    ("served", "ready", "fingerprint", "expected"),
    [
        (None, 0, None, Situation.ABSENT),
        ("1", 2, "a", Situation.SAME),
        ("1", 1, "a", Situation.FAILED),
        ("1", 2, "b", Situation.SAME_VERSION),
        ("1", 2, None, Situation.REGISTERED_BY_HAND),
        ("1", 1, None, Situation.FAILED),
        ("2", 2, "a", Situation.OTHER_VERSION),
        ("2", 1, "a", Situation.OTHER_VERSION),
    ],
)
def test_situations(
    monkeypatch: pytest.MonkeyPatch, served: str | None, ready: int, fingerprint: str | None, expected: Situation
) -> None:
    monkeypatch.setattr(situation, "version_of", lambda _: "1")
    monkeypatch.setattr(situation, "fingerprint_of", lambda _: "a")
    status = SimpleNamespace(version=served, ready=ready, workers=2)
    management: Any = SimpleNamespace(models=lambda: ["m"] if served else [], status=lambda _: status)
    models = {"m": Registered(fingerprint, "1", 0.0)} if fingerprint else {}
    assert situation_of(management, RunState(1, "", Ports(), "", models=models), ARCHIVE) is expected
