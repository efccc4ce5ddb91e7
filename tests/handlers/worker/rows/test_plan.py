import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.rows.plan import Planner, max_sequence_length
from handlers.worker.values import Call, Shape

Times = dict[Shape, float]
times = st.dictionaries(
    st.builds(Shape, st.integers(1, 16), st.integers(1, 40), st.just(False)),
    st.integers(1, 1000).map(float),
    min_size=1,
    max_size=8,
)


@st.composite
def plannable(draw: st.DrawFn, rows: int = 60) -> tuple[list[int], Times]:
    chosen = draw(times)
    return draw(st.lists(st.integers(1, max_sequence_length(chosen)), max_size=rows)), chosen


def total(calls: list[Call], chosen: Times) -> float:
    return sum(chosen[call.shape] for call in calls)


@given(plannable())
def test_every_row_is_computed_once_in_a_graph_that_holds_it(case: tuple[list[int], Times]) -> None:
    lengths, chosen = case
    calls = Planner(chosen).plan(lengths)
    assert sorted(row for call in calls for row in call.rows) == list(range(len(lengths)))
    for call in calls:
        assert call.shape in chosen
        assert 1 <= len(call.rows) <= call.shape.batch_size
        assert all(lengths[row] <= call.shape.sequence_length for row in call.rows)


def partitions(rows: list[int]) -> Iterator[list[list[int]]]:
    """Every way to divide rows into groups."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(len(rest) + 1):
        for chosen in itertools.combinations(rest, size):
            left = [row for row in rest if row not in chosen]
            for others in partitions(left):
                yield [[first, *chosen], *others]


@given(plannable(rows=6))
def test_no_plan_takes_less_time(case: tuple[list[int], Times]) -> None:
    lengths, chosen = case

    def least(group: list[int]) -> float:
        tokens = max(lengths[row] for row in group)
        fitting = [
            time for shape, time in chosen.items() if shape.batch_size >= len(group) and shape.sequence_length >= tokens
        ]
        return min(fitting, default=float("inf"))

    best = min(sum(map(least, groups)) for groups in partitions(list(range(len(lengths)))))
    assert total(Planner(chosen).plan(lengths), chosen) == best


@given(plannable())
def test_it_is_never_worse_than_any_one_shape_for_all_rows(case: tuple[list[int], Times]) -> None:
    lengths, chosen = case
    for shape, time in chosen.items():
        if all(tokens <= shape.sequence_length for tokens in lengths):
            assert total(Planner(chosen).plan(lengths), chosen) <= time * -(-len(lengths) // shape.batch_size)


@given(plannable(rows=20))
def test_rows_wait_least_in_the_order_of_the_calls(case: tuple[list[int], Times]) -> None:
    lengths, chosen = case
    calls = Planner(chosen).plan(lengths)[:5]

    def waiting(order: tuple[Call, ...]) -> float:
        ends = itertools.accumulate(chosen[call.shape] for call in order)
        return sum(end * len(call.rows) for end, call in zip(ends, order, strict=True))

    assert waiting(tuple(calls)) <= min(map(waiting, itertools.permutations(calls))) * (1 + 1e-9)


def test_short_rows_take_empty_places_of_longer_ones() -> None:
    calls = Planner({Shape(1, 16): 1.0, Shape(4, 32): 2.0}).plan([30, 10, 12, 31])
    assert calls == [Call(Shape(4, 32), (1, 2, 0, 3))]


def test_a_row_longer_than_every_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 17 tokens is longer than every shape: 16"):
        Planner({Shape(1, 16): 1.0}).plan([17])


def test_shapes_are_read_and_written_alike() -> None:
    assert Shape.parse(" 8x128 ") == Shape(8, 128)
    assert str(Shape(8, 128)) == "8x128"


@pytest.mark.parametrize("text", ["8", "8x", "x8", "8x-1", "0x8", "8x0", "axb", "8×8", "1x2x3", "²x3"])
def test_what_is_not_a_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shape"):
        Shape.parse(text)
