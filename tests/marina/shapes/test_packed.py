"""Sets of shapes with packed ones among them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.values import Shape
from marina.shapes.best import best_shapes
from marina.shapes.choice import choose_shapes
from marina.shapes.costs import CostModel
from marina.shapes.packed import Costing, sets_with_packed

# a call costs 0.2 ms, and a token 0.05 ms
PLAIN = [Shape(1, 16), Shape(8, 16), Shape(1, 64), Shape(8, 64)]
TIMES = {shape: 0.2 + 0.05 * shape.tokens for shape in PLAIN}
PACKED_TIMES = {shape: 0.2 + 0.05 * shape.tokens for shape in (Shape(size, 64, True) for size in (1, 2, 8))}


def lengths_of(seed: int, count: int = 200) -> list[int]:
    source = random.Random(seed)
    return [min(64, max(4, round(source.lognormvariate(2.8, 0.7)))) for _ in range(count)]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=2, max_size=60), st.integers(1, 40), st.integers(1, 6))
def test_sets_hold_the_longest_text_and_grow(lengths: list[int], rows: int, most: int) -> None:
    model = CostModel({**TIMES, **PACKED_TIMES})
    sets = sets_with_packed(lengths, 64, rows, model.milliseconds, most)
    assert [len(shapes) for shapes in sets] == list(range(1, len(sets) + 1))
    assert 1 <= len(sets) <= most
    for shapes in sets:
        assert max(shape.sequence_length for shape in shapes) == 64
        assert any(shape.packed for shape in shapes)
        assert list(shapes) == sorted(set(shapes))


def test_a_set_may_hold_every_shape_there_is() -> None:
    model = CostModel(PACKED_TIMES)
    assert sets_with_packed([3, 5, 8], 8, 1, model.milliseconds, 8) == [(Shape(1, 8, True),)]
    assert len(sets_with_packed([3, 5, 8], 12, 1, model.milliseconds, 8)) == 2


@pytest.mark.long
def test_a_few_packed_shapes_take_the_place_of_many() -> None:
    model, lengths = CostModel({**TIMES, **PACKED_TIMES}), lengths_of(0)
    choices = choose_shapes(lengths, 64, 32, model.milliseconds, 24)
    found = best_shapes(choices, lengths, 64, 32, model, 24, 0.01)
    assert found.packed == found.shapes
    assert len(found.shapes) < len(found.plain)
    costing = Costing(lengths, 32, model.milliseconds, {*found.plain, *found.packed})
    assert costing.cost(found.packed) < costing.cost(found.plain)


@pytest.mark.long
def test_slow_packed_graphs_are_not_chosen() -> None:
    slow = {shape: 3 * time for shape, time in PACKED_TIMES.items()}
    model, lengths = CostModel({**TIMES, **slow}), lengths_of(1)
    choices = choose_shapes(lengths, 64, 32, model.milliseconds, 24)
    found = best_shapes(choices, lengths, 64, 32, model, 24, 0.01)
    assert found.shapes == found.plain
    assert not any(shape.packed for shape in found.shapes)


def test_without_times_of_packed_shapes_there_are_none() -> None:
    model, lengths = CostModel(TIMES), lengths_of(2)
    choices = choose_shapes(lengths, 64, 32, model.milliseconds, 4)
    assert best_shapes(choices, lengths, 64, 32, model, 4, None).packed is None
    assert not model.packed
