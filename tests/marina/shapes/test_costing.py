"""What sets of shapes cost, and which the ladder makes, to the number."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.values import Shape
from marina.shapes.ladder import BATCH_SIZES, DEFAULT_GRAPHS, PACKED_BATCH_SIZES, SHORTEST, STEP, default_ladder, ladder
from marina.shapes.packed import BATCH_DIVISORS, MAX_SHAPES, MIN_ROWS, Costing, sets_with_packed

LENGTH = 32


def test_batches_of_every_size_count_as_often() -> None:
    shape = Shape(4, LENGTH)
    costing = Costing([LENGTH], 32, lambda _: 10.0, [shape])
    rows = 32 * max(1, MIN_ROWS // 32)
    sizes = {max(1, 32 // divisor) for divisor in BATCH_DIVISORS}
    milliseconds = sum(rows / size * -(-size // 4) * 10 for size in sizes)
    best = len(sizes) * rows * LENGTH * 10 / shape.tokens
    # alone, a text takes what is the best, as there is no other shape
    assert costing.cost([shape]) == pytest.approx((1 + milliseconds / best) / 2)


def test_texts_alone_take_the_quickest_shape_that_holds_them() -> None:
    times = {Shape(1, 16): 1.0, Shape(1, LENGTH): 3.0}
    lengths = [10, 10, 10, 20]
    costing = Costing(lengths, 1, times.__getitem__, times)
    # three texts of 1 ms and one of 3 ms, and 4 times 3 ms in the second case; rows of one do not come together
    assert costing.cost(times) == pytest.approx((1 + (3 * 1 + 3) / (50 * 1 / 16)) / 2)
    assert costing.cost([Shape(1, LENGTH)]) == pytest.approx((12 / 6 + 12 / (50 * 1 / 16)) / 2)


def test_each_further_shape_saves_what_is_asked() -> None:
    def milliseconds(shape: Shape) -> float:
        return 1.0 + shape.tokens / 50

    lengths = [8, 12, 20, 30, 60, 90, 120] * 5
    loose, strict = (sets_with_packed(lengths, 128, 8, milliseconds, 8, saving) for saving in (0.001, 0.2))
    assert len(loose) > len(strict)
    pool = {shape for one in loose for shape in one}
    costing = Costing(lengths, 8, milliseconds, pool)
    costs = [costing.cost(shapes) for shapes in loose]
    assert [len(shapes) for shapes in loose] == list(range(1, len(loose) + 1))
    assert len(loose) <= MAX_SHAPES
    assert all(before > after for before, after in itertools.pairwise(costs))
    assert all(max(shape.sequence_length for shape in shapes) == 128 for shapes in loose)
    assert all(shape.packed for shape in pool)
    assert [len(shapes) for shapes in sets_with_packed(lengths, 128, 8, milliseconds, 2, 0.001)] == [1, 2]
    # without several rows there are no calls of several lines
    assert {shape.batch_size for one in sets_with_packed(lengths, 128, 1, milliseconds, 8) for shape in one} == {1}


@given(st.integers(2, 600), st.integers(1, 30), st.sampled_from([(1,), (1, 8), (1, 4, 16)]))
def test_some_text_wastes_as_much_as_the_bound(longest: int, graphs: int, sizes: tuple[int, ...]) -> None:
    made = ladder(longest, graphs, sizes)
    lengths = sorted({shape.sequence_length for shape in made.shapes})
    assert {shape.batch_size for shape in made.shapes} == set(sizes)
    if len(lengths) == 1:
        assert made.waste == pytest.approx(1 - 1 / longest)
        return
    texts = range(lengths[0] + 1, longest + 1)
    held = [min(length for length in lengths if length >= tokens) for tokens in texts]
    assert max(1 - tokens / length for tokens, length in zip(texts, held, strict=True)) == pytest.approx(made.waste)
    assert all(length % STEP == 0 for length in lengths[:-1])
    assert lengths[0] == min(SHORTEST, longest)


@pytest.mark.parametrize(
    ("longest", "graphs", "sizes", "lengths"),
    [
        (128, 8, (1, 8), [16, 32, 64, 128]),
        (128, 9, (1, 8), [16, 32, 64, 128]),
        (128, 2, (1, 8), [128]),
        (128, 1, (1, 8), [128]),
        (512, 12, (1, 8), [16, 32, 64, 128, 256, 512]),
        (16, 12, (1,), [16]),
        (10, 12, (1,), [10]),
        (20, 4, (1,), [16, 20]),
    ],
)
def test_rungs_grow_by_a_constant_ratio(longest: int, graphs: int, sizes: tuple[int, ...], lengths: list[int]) -> None:
    shapes = [Shape(size, length) for size in sizes for length in lengths]
    assert ladder(longest, graphs, sizes).shapes == tuple(sorted(shapes))


def test_texts_alone_have_a_ladder_and_several_share_lines() -> None:
    made = default_ladder(128, None, packed=True)
    lines = [Shape(size, 128, True) for size in PACKED_BATCH_SIZES]
    assert len(made.shapes) == DEFAULT_GRAPHS[True]
    assert set(lines) < set(made.shapes)
    assert all(shape.packed and shape.batch_size == 1 for shape in set(made.shapes) - set(lines))
    assert made.waste == ladder(128, DEFAULT_GRAPHS[True] - len(PACKED_BATCH_SIZES) + 1, (1,)).waste
    # too few graphs for lines, or none that can be packed
    assert default_ladder(128, 1, packed=True) == ladder(128, 1, (1,))
    assert default_ladder(128, 2, packed=True).shapes == tuple(sorted(lines))
    assert default_ladder(128, None, packed=False) == ladder(128, DEFAULT_GRAPHS[False], BATCH_SIZES)
    assert default_ladder(128, 1, packed=False) == ladder(128, 1, (1,))
