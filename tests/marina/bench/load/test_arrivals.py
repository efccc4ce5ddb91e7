from itertools import pairwise, takewhile
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.bench.load.arrivals import arrival_times
from marina.bench.load.generator import share


@given(st.floats(0.5, 5000), st.integers(1, 5))
def test_constant_schedules_of_all_processes_interleave_to_one(rate: float, processes: int) -> None:
    times = sorted(
        at
        for process in range(processes)
        for at in takewhile(lambda at: at < 20 / rate, arrival_times("constant", rate, process, processes))
    )
    assert times[:15] == pytest.approx([number / rate for number in range(15)], abs=1e-9 + 1e-6 / rate)


@pytest.mark.parametrize("processes", [1, 3])
def test_poisson_gaps_are_exponential_and_add_up_to_the_rate(processes: int) -> None:
    times = sorted(
        at
        for process in range(processes)
        for at in takewhile(lambda at: at < 100, arrival_times("poisson", 200, process, processes))
    )
    gaps = [after - before for before, after in pairwise(times)]
    assert len(times) == pytest.approx(20_000, rel=0.03)
    # of an exponential distribution the deviation is the mean
    assert pstdev(gaps) == pytest.approx(fmean(gaps), rel=0.05)


@given(st.integers(0, 1000), st.integers(1, 9))
def test_parts_add_up_and_differ_by_one_at_most(whole: int, processes: int) -> None:
    parts = [share(whole, process, processes) for process in range(processes)]
    assert sum(parts) == whole
    assert max(parts) - min(parts) <= 1
