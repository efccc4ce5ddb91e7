import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.plan import Call, Shape, longest, plan

shapes = st.lists(st.builds(Shape, st.integers(1, 16), st.integers(1, 40)), min_size=1, max_size=8, unique=True)


@st.composite
def plannable(draw: st.DrawFn) -> tuple[list[int], list[Shape]]:
    chosen = draw(shapes)
    return draw(st.lists(st.integers(1, longest(chosen)), max_size=60)), chosen


@given(plannable())
def test_every_row_is_computed_once_in_a_graph_that_holds_it(case: tuple[list[int], list[Shape]]) -> None:
    lengths, compiled = case
    calls = plan(lengths, compiled)
    assert sorted(row for call in calls for row in call.rows) == list(range(len(lengths)))
    for call in calls:
        assert call.shape in compiled
        assert 1 <= len(call.rows) <= call.shape.batch_size
        assert all(lengths[row] <= call.shape.sequence_length for row in call.rows)


@given(plannable())
def test_rows_go_to_the_smallest_length_that_holds_them(case: tuple[list[int], list[Shape]]) -> None:
    lengths, compiled = case
    for call in plan(lengths, compiled):
        for row in call.rows:
            fitting = [shape.sequence_length for shape in compiled if shape.sequence_length >= lengths[row]]
            assert call.shape.sequence_length == min(fitting)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, [1]), (3, [1, 1, 1]), (4, [8]), (8, [8]), (9, [8, 1]), (12, [8, 8]), (11, [8, 1, 1, 1])],
)
def test_a_remainder_takes_a_batch_that_it_fills_at_least_by_half(rows: int, expected: list[int]) -> None:
    calls = plan([5] * rows, [Shape(1, 16), Shape(8, 16)])
    assert [call.shape.batch_size for call in calls] == expected


def test_a_lone_row_is_padded_where_only_large_batches_exist() -> None:
    assert plan([5], [Shape(8, 16)]) == [Call(Shape(8, 16), (0,))]


def test_a_row_longer_than_every_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 17 tokens is longer than every shape: 16"):
        plan([17], [Shape(1, 16)])


def test_shapes_are_read_and_written_alike() -> None:
    assert Shape.parse(" 8x128 ") == Shape(8, 128)
    assert str(Shape(8, 128)) == "8x128"


@pytest.mark.parametrize("text", ["8", "8x", "x8", "8x-1", "0x8", "8x0", "axb", "8×8", "1x2x3", "²x3"])
def test_what_is_not_a_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shape"):
        Shape.parse(text)
