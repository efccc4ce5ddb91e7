"""Rows in the lines of packed graphs, and plans with them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.worker.rows.packing import Packer, calls_of, fill_room
from handlers.worker.rows.plan import MANY_ROWS, Planner
from handlers.worker.values import Call, Shape
from tests.handlers.worker.rows.test_plan import partitions

LENGTH = 24
Times = dict[Shape, float]
packed_shapes = st.builds(Shape, st.integers(1, 4), st.sampled_from([8, 12, LENGTH]), st.just(True))
plain_shapes = st.builds(Shape, st.integers(1, 4), st.integers(4, LENGTH), st.just(False))
packed_times = st.dictionaries(packed_shapes, st.integers(1, 100).map(float), min_size=1, max_size=4)
plain_times = st.dictionaries(plain_shapes, st.integers(1, 100).map(float), max_size=4)
rows_of = st.lists(st.integers(1, LENGTH), min_size=1, max_size=40)


def mixed(packed: Times, plain: Times, last: float = 50.0) -> Times:
    return {**packed, **plain, Shape(1, LENGTH, True): last}


def check(calls: Sequence[Call], lengths: Sequence[int]) -> None:
    """Every row is computed once, and in a packed call no two rows share a place."""
    assert sorted(row for call in calls for row in call.rows) == list(range(len(lengths)))
    for call in calls:
        assert len(call.places) == (len(call.rows) if call.shape.packed else 0)
        taken: set[tuple[int, int]] = set()
        numbers: dict[int, list[int]] = {}
        for row, (line, number, start) in zip(call.rows, call.places, strict=False):
            own = {(line, token) for token in range(start, start + lengths[row])}
            assert not own & taken
            assert start + lengths[row] <= call.shape.sequence_length
            assert line < call.shape.batch_size
            taken |= own
            numbers.setdefault(line, []).append(number)
        for own_numbers in numbers.values():
            assert sorted(own_numbers) == list(range(len(own_numbers)))
            assert len(own_numbers) <= call.shape.texts_a_line


@given(packed_times, plain_times, rows_of)
def test_every_row_has_a_place_of_its_own(packed: Times, plain: Times, lengths: list[int]) -> None:
    check(Planner(mixed(packed, plain)).plan(lengths), lengths)


@given(st.sampled_from([8, LENGTH]), st.integers(1, 4), st.booleans(), rows_of)
def test_calls_of_one_shape_hold_all_rows(length: int, size: int, packed: bool, lengths: list[int]) -> None:
    lengths = [min(tokens, length) for tokens in lengths]
    calls = calls_of(Shape(size, length, packed), lengths)
    check(calls, lengths)
    assert all(call.used_rows == size for call in calls[:-1])


@given(rows_of)
def test_the_first_rows_are_where_they_are_without_the_others(lengths: list[int]) -> None:
    lengths.sort(reverse=True)
    packer = Packer(LENGTH, {Shape(1, LENGTH, True): 1.0})
    places, used = packer.pack(lengths)
    for count in range(1, len(lengths)):
        assert packer.pack(lengths[:count]) == (places[:count], used[:count])


@given(st.integers(1, 4), rows_of, rows_of)
def test_rows_that_find_no_room_fit_into_no_line(size: int, first: list[int], more: list[int]) -> None:
    shape, lengths = Shape(size, LENGTH, True), first + more
    rows = sorted(range(len(first), len(lengths)), key=lambda row: -lengths[row])
    calls, rows_left = fill_room(calls_of(shape, first), rows, lengths)
    placed = [row for call in calls for row in call.rows]
    assert sorted([*placed, *rows_left]) == list(range(len(lengths)))
    renumbered = [call._replace(rows=tuple(placed.index(row) for row in call.rows)) for call in calls]
    check(renumbered, [lengths[row] for row in placed])
    for call in calls:
        for line in range(size):
            rows_of_line = [row for row, place in zip(call.rows, call.places, strict=True) if place.line == line]
            room = LENGTH - sum(lengths[row] for row in rows_of_line)
            if len(rows_of_line) < shape.texts_a_line:
                assert all(lengths[row] > room for row in rows_left)


@given(packed_times, plain_times, rows_of)
def test_bounds_leave_out_no_better_plan(packed: Times, plain: Times, lengths: list[int]) -> None:
    times = mixed(packed, plain)
    without_bounds = Planner(times)
    for packer in without_bounds._packers:
        packer.min_token_time = 0.0
    assert Planner(times).plan(lengths) == without_bounds.plan(lengths)


@settings(max_examples=40, deadline=None)
@given(packed_times, plain_times, st.lists(st.integers(1, LENGTH), min_size=MANY_ROWS, max_size=2 * MANY_ROWS))
def test_plans_of_many_rows_are_never_worse_for_filled_lines(packed: Times, plain: Times, lengths: list[int]) -> None:
    times = mixed(packed, plain)
    planner = Planner(times)
    calls = planner.plan(lengths)
    check(calls, lengths)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    unfilled = planner._best_calls(order, lengths)
    assert sum(times[call.shape] for call in calls) <= sum(times[call.shape] for call in unfilled)


def test_shorter_rows_fill_the_lines_of_the_longest() -> None:
    times = {Shape(1, 64, True): 2.0, Shape(1, 128, True): 4.5}
    lengths = [96] * 10 + [32] * 200
    calls = Planner(times).plan(lengths)
    assert Counter(call.shape for call in calls) == {Shape(1, 128, True): 10, Shape(1, 64, True): 95}
    check(calls, lengths)


def fewest_lines(lengths: list[int], texts: int) -> int:
    """The fewest lines that are possible, by trying all."""
    return min(
        len(groups)
        for groups in partitions(list(range(len(lengths))))
        if all(sum(lengths[row] for row in group) <= LENGTH and len(group) <= texts for group in groups)
    )


@settings(max_examples=60)
@given(st.lists(st.integers(4, LENGTH), min_size=1, max_size=7))
def test_few_rows_need_at_most_one_line_more_than_the_fewest(lengths: list[int]) -> None:
    lengths.sort(reverse=True)
    shape = Shape(1, LENGTH, True)
    used = Packer(LENGTH, {shape: 1.0}).pack(lengths)[1][-1]
    # rows of at least TOKENS_A_TEXT tokens, so the most texts of a line never bind
    assert used <= fewest_lines(lengths, shape.texts_a_line) + 1


@given(st.integers(1, 6), st.dictionaries(st.integers(1, 6), st.integers(1, 100).map(float), min_size=1, max_size=3))
def test_the_calls_for_lines_take_the_least_time(lines: int, sizes: dict[int, float]) -> None:
    packer = Packer(LENGTH, {Shape(size, LENGTH, True): time for size, time in sizes.items()})
    least = min(
        sum(count * time for count, time in zip(counts, sizes.values(), strict=True))
        for counts in itertools.product(range(7), repeat=len(sizes))
        if sum(count * size for count, size in zip(counts, sizes, strict=True)) >= lines
    )
    assert packer.time(lines) == least


def test_a_line_that_is_not_full_has_a_shorter_shape() -> None:
    times = {Shape(1, 16, True): 1.0, Shape(1, 64, True): 3.0, Shape(4, 64, True): 10.0}
    calls = Planner(times).plan([32, 32, 6, 6])
    assert Counter(call.shape for call in calls) == {Shape(1, 64, True): 1, Shape(1, 16, True): 1}
    check(calls, [32, 32, 6, 6])


@given(packed_times, plain_times, rows_of)
def test_mixed_plans_are_never_worse_than_either_kind(packed: Times, plain: Times, lengths: list[int]) -> None:
    times = mixed(packed, {**plain, Shape(2, LENGTH): 70.0})

    def total(own: Times) -> float:
        return sum(own[call.shape] for call in Planner(own).plan(lengths))

    assert total(times) <= total({shape: time for shape, time in times.items() if not shape.packed})
    for length in {shape.sequence_length for shape in packed if shape.sequence_length == LENGTH}:
        own = {shape: time for shape, time in times.items() if shape.packed and shape.sequence_length == length}
        assert total(times) <= total(own)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(4, LENGTH), min_size=1, max_size=6), st.integers(1, 30), st.integers(1, 60))
def test_plans_are_close_to_the_best_of_all(lengths: list[int], single: int, line: int) -> None:
    """One row in an ordinary shape of half the length, or any that fit into a line."""
    half = LENGTH // 2
    times = {Shape(1, half): float(single), Shape(1, LENGTH, True): float(line)}

    def least(group: list[int]) -> float:
        tokens = [lengths[row] for row in group]
        alone = single if len(tokens) == 1 and tokens[0] <= half else math.inf
        return min(alone, line if sum(tokens) <= LENGTH else math.inf)

    best = min(sum(map(least, groups)) for groups in partitions(list(range(len(lengths)))))
    found = sum(times[call.shape] for call in Planner(times).plan(lengths))
    assert best <= found <= best + line + single


def test_a_packed_line_takes_the_place_of_many_short_rows() -> None:
    times = {Shape(1, 16): 1.0, Shape(1, 64, True): 2.0}
    calls = Planner(times).plan([10] * 6)
    assert Counter(call.shape for call in calls) == {Shape(1, 64, True): 1}
    assert Planner(times).plan([10])[0].shape == Shape(1, 16)


def test_packed_shapes_are_read_and_written_alike() -> None:
    assert Shape.parse("4x128p") == Shape(4, 128, packed=True)
    assert str(Shape(4, 128, packed=True)) == "4x128p"
    assert Shape(4, 128, packed=True).texts_a_line == 32
