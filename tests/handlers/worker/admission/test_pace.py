"""How long calls take now."""

from __future__ import annotations

import pytest

from handlers.worker.admission.pace import STALE_FACTOR, STALE_S, Pace


class Worker:
    def __init__(self) -> None:
        self.now = 0.0
        self.pace = Pace(lambda: self.now)

    def observe(self, expected_ms: float, took_ms: float, times: int = 1) -> None:
        for _ in range(times):
            self.pace.observe(expected_ms, took_ms)


def test_a_new_worker_takes_its_times_for_true_and_may_be_quicker() -> None:
    worker = Worker()
    assert worker.pace.value == 1
    assert worker.pace.best == STALE_FACTOR


@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_the_pace_is_what_was_observed(ratio: float) -> None:
    worker = Worker()
    worker.observe(20, 20 * ratio, times=60)
    assert worker.pace.value == pytest.approx(ratio, rel=0.02)
    assert worker.pace.best == pytest.approx(min(ratio, 1.0), rel=0.02)
    worker.now = STALE_S + 1
    assert worker.pace.best == pytest.approx(min(ratio, 1.0) * STALE_FACTOR, rel=0.02)


def test_one_slow_call_says_little() -> None:
    worker = Worker()
    worker.observe(5, 50)
    assert worker.pace.value < 1.6


def test_a_machine_that_stood_still_is_forgotten() -> None:
    worker = Worker()
    worker.observe(20, 20, times=60)
    worker.observe(20, 60_000)
    assert worker.pace.value < 2
    worker.observe(20, 20, times=60)
    assert worker.pace.value == pytest.approx(1, rel=0.02)
