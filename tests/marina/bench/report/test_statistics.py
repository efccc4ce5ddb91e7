import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.bench.report.statistics import Interval, bootstrap, places

ROUNDS = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=9)


@given(ROUNDS)
def test_an_interval_holds_the_median_and_lies_within_the_rounds(rounds: list[float]) -> None:
    found = bootstrap(rounds)
    assert found.median == pytest.approx(median(rounds))
    assert min(rounds) <= found.low <= found.median * (1 + 1e-9)
    assert found.median <= found.high * (1 + 1e-9)
    assert found.high <= max(rounds)
    assert bootstrap(rounds) == found


def test_an_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    source = random.Random(0)
    held = 0
    for _ in range(200):
        found = bootstrap([source.gauss(100, 10) for _ in range(15)])
        held += found.low <= 100 <= found.high
    assert held > 170


def test_places_are_shared_where_intervals_overlap() -> None:
    one, near, far = Interval(100, 90, 110), Interval(95, 85, 105), Interval(50, 45, 55)
    assert places([one, near, far], "high") == ["1=", "1=", "3"]
    assert places([far, one, near], "low") == ["1", "2=", "2="]


@given(st.lists(ROUNDS, min_size=1, max_size=6))
def test_nobody_is_placed_behind_one_that_is_worse(rounds: list[list[float]]) -> None:
    intervals = [bootstrap(one) for one in rounds]
    ranks = [int(place.rstrip("=")) for place in places(intervals, "high")]
    assert min(ranks) == 1
    for place, interval in zip(ranks, intervals, strict=True):
        for other_place, other in zip(ranks, intervals, strict=True):
            assert interval.median <= other.median or place <= other_place
