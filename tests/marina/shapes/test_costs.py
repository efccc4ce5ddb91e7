import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.values import Shape
from marina.shapes.costs import CostModel, can_fit

SHAPES = [Shape(1, 16), Shape(8, 16), Shape(1, 64), Shape(8, 64), Shape(4, 256)]
factor = st.one_of(st.just(0.0), st.floats(1e-5, 10))


@given(st.floats(0.01, 10), factor, factor)
def test_factors_are_found_again(each: float, token: float, pair: float) -> None:
    def time(shape: Shape) -> float:
        tokens = shape.batch_size * shape.sequence_length
        return each + token * tokens + pair * tokens * shape.sequence_length

    times = {shape: time(shape) for shape in SHAPES}
    model = CostModel(times)
    assert model.error(times) < 1e-6
    assert model.milliseconds(Shape(16, 128)) == pytest.approx(time(Shape(16, 128)), rel=1e-3)


def test_three_shapes_tell_the_times_of_others() -> None:
    assert can_fit([Shape(1, 16), Shape(1, 32), Shape(1, 64)])
    assert not can_fit([Shape(1, 16), Shape(1, 64)])
    assert not can_fit([Shape(1, 16), Shape(2, 8), Shape(1, 64)])  # two of as many tokens tell no more than one


@given(st.lists(st.floats(0.01, 1000), min_size=len(SHAPES), max_size=len(SHAPES)))
def test_larger_shapes_never_take_less_time(times: list[float]) -> None:
    model = CostModel(dict(zip(SHAPES, times, strict=True)))
    assert 0 <= model.milliseconds(Shape(1, 16)) <= model.milliseconds(Shape(1, 32)) <= model.milliseconds(Shape(2, 32))
