"""The calls for rows of several models: each model's plan is exact, and models change as rarely as possible."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.rows.plan import Planner
from handlers.worker.rows.schedule import Schedule
from handlers.worker.values import Shape

TIMES = [
    {Shape(1, 16): 1.0, Shape(4, 64): 3.0},
    {Shape(2, 32): 1.5, Shape(2, 64): 2.0},
    {Shape(8, 64): 9.0},
]
batches = st.lists(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 2)), max_size=20), max_size=6)


@given(batches)
def test_every_row_is_computed_once_by_its_model_in_an_exact_plan(batches: list[list[tuple[int, int]]]) -> None:
    schedule = Schedule([Planner(times) for times in TIMES])
    last: int | None = None
    for batch in batches:
        lengths, members = [length for length, _ in batch], [member for _, member in batch]
        calls = schedule.plan(lengths, members)
        assert sorted(row for call in calls for row in call.rows) == list(range(len(batch)))
        for member, times in enumerate(TIMES):
            own = [call for call in calls if call.member == member]
            assert all(members[row] == member for call in own for row in call.rows)
            assert all(lengths[row] <= call.shape.sequence_length for call in own for row in call.rows)
            alone = Planner(times).plan([length for length, one in batch if one == member])
            assert sum(times[call.shape] for call in own) == sum(times[call.shape] for call in alone)
        order = [call.member for call in calls]
        changes = sum(one != other for one, other in pairwise(order))
        assert changes == max(0, len(set(members)) - 1)
        if order and last in set(members):
            assert order[0] == last
        last = order[-1] if order else last
