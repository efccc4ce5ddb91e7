"""The dynamic programme against all choices there are."""

import itertools
import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.values import Shape
from marina.shapes import choice
from marina.shapes.choice import ShapeChoice, best_at_price, candidates, choose_for_bulk, choose_shapes


def milliseconds(shape: Shape) -> float:
    return 0.9 + 0.015 * shape.batch_size * shape.sequence_length


def expected_cost(lengths: Sequence[int], shapes: Sequence[Shape], rows: int) -> tuple[float, float]:
    """Milliseconds a row, alone and in a full batch, from the model's own words."""
    levels = sorted({shape.sequence_length for shape in shapes})
    alone = full = 0.0
    for low, high in pairwise([0, *levels]):
        share = sum(low < tokens <= high for tokens in lengths) / len(lengths)
        times = [(shape.batch_size, milliseconds(shape)) for shape in shapes if shape.sequence_length == high]
        least = [0.0]
        for number in range(1, rows + 1):
            least.append(min(time + least[max(0, number - size)] for size, time in times))
        alone += share * least[1]
        for number in range(rows + 1):
            chance = math.comb(rows, number) * share**number * (1 - share) ** (rows - number)
            full += chance * least[number] / rows
    return alone, full


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 4))
def test_no_other_shapes_cost_less(lengths: list[int], rows: int, graphs: int) -> None:
    found = choose_shapes(lengths, 12, rows, milliseconds, graphs)[-1]
    sizes = [size for size in choice.BATCH_SIZES if size <= rows]
    possible = [Shape(size, length) for size in sizes for length in candidates(12)]
    every = [
        chosen
        for count in range(1, len(possible) + 1)
        for chosen in itertools.combinations(possible, count)
        if max(shape.sequence_length for shape in chosen) == 12
    ]
    costs = [expected_cost(lengths, chosen, rows) for chosen in every]
    best_alone, best_full = min(cost[0] for cost in costs), min(cost[1] for cost in costs)
    relative = [
        (alone / best_alone + full / best_full) / 2
        for chosen, (alone, full) in zip(every, costs, strict=True)
        if len(chosen) <= graphs
    ]
    assert found.cost == pytest.approx(min(relative))
    alone, full = expected_cost(lengths, found.shapes, rows)
    assert found.cost == pytest.approx((alone / best_alone + full / best_full) / 2)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=50), st.sampled_from([24, 128, 200]))
def test_more_graphs_cost_less_and_the_longest_stays(lengths: list[int], longest: int) -> None:
    choices = choose_shapes(lengths, longest, 16, milliseconds, 10)
    assert all(one.cost > other.cost for one, other in itertools.pairwise(choices))
    for number, found in enumerate(choices, start=1):
        assert number <= len(found.shapes) <= 10
        assert max(shape.sequence_length for shape in found.shapes) == longest


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=30), st.integers(1, 4))
def test_no_other_shapes_cost_less_in_bulk(lengths: list[int], graphs: int) -> None:
    def cost(levels: Sequence[int]) -> float:
        """Milliseconds of all rows, each in its shortest level."""
        return sum(a_row[min(level for level in levels if level >= tokens)] for tokens in lengths)

    a_row = {}
    for level in candidates(16):
        times = {size: milliseconds(Shape(size, level)) / size for size in choice.BATCH_SIZES}
        # the least batch size that is about as fast as any
        a_row[level] = next(time for time in times.values() if time <= min(times.values()) * choice.TOLERANCE)

    found = choose_for_bulk(lengths, 16, milliseconds, graphs)[-1]
    every = [(*chosen, 16) for count in range(4) for chosen in itertools.combinations(candidates(16)[:-1], count)]
    best = min(cost(levels) for levels in every)
    assert cost([shape.sequence_length for shape in found.shapes]) == pytest.approx(found.cost * best)
    assert found.cost * best == pytest.approx(min(cost(levels) for levels in every if len(levels) <= graphs))


def test_candidates_end_at_the_longest() -> None:
    assert candidates(10) == [4, 8, 10]
    assert candidates(300)[-3:] == [256, 288, 300]
    assert max(candidates(1000)) == 1000


def test_a_graph_must_be_worth_its_price() -> None:
    choices = [ShapeChoice((Shape(1, 8),), 2.0), ShapeChoice((Shape(1, 4), Shape(1, 8)), 1.5)]
    assert best_at_price(choices, 0.4) is choices[1]
    assert best_at_price(choices, 0.6) is choices[0]
