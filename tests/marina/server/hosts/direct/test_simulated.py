"""Simulations of the host `direct` with virtual time: whatever happens, its promises hold."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.marina.server.hosts.direct.simulated import simulate


def run_seeds(seeds: range) -> Counter[int]:
    statuses: Counter[int] = Counter()
    for seed in seeds:
        try:
            statuses += simulate(seed)
        except Exception as error:
            raise AssertionError(f"python -m tests.marina.server.hosts.direct.simulated {seed}") from error
    return statuses


def test_the_promises_hold() -> None:
    statuses = run_seeds(range(50))
    assert set(statuses) == {200, 503}
    assert min(statuses.values()) > 500


@pytest.mark.long
def test_the_promises_hold_in_a_thousand_simulations() -> None:
    assert sum(run_seeds(range(1000)).values()) > 100_000


def test_a_seed_says_what_happens() -> None:
    assert simulate(7) == simulate(7)
