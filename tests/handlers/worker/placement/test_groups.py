import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.placement.groups import format_cores, lay_out, parse_core_groups, parse_cores, possible_groups


def test_groups_are_read_as_neuroncore_group_sizes() -> None:
    assert parse_core_groups("1,1,1,1") == (1, 1, 1, 1)
    assert parse_core_groups(" 3, 4,1 ") == (3, 4, 1)


@pytest.mark.parametrize("text", ["", "0", "1,", "a", "-1", "1.5"])
def test_what_is_no_list_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of core group sizes"):
        parse_core_groups(text)


@pytest.mark.parametrize(
    ("text", "cores"), [("3", (3,)), ("3-6", (3, 4, 5, 6)), ("3,4,5", (3, 4, 5)), ("3-5,6", (3, 4, 5, 6))]
)
def test_cores_are_read_as_the_runtime_writes_them(text: str, cores: tuple[int, ...]) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1 2"])
def test_what_is_no_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of cores"):
        parse_cores(text)


@given(st.integers(0, 60), st.integers(1, 64))
def test_contiguous_cores_are_written_so_that_they_can_be_read(first: int, count: int) -> None:
    group = tuple(range(first, first + count))
    assert parse_cores(format_cores(group)) == group


@given(st.sets(st.integers(0, 30)), st.integers(1, 8))
def test_groups_are_every_contiguous_run_of_cores(cores: set[int], size: int) -> None:
    groups = possible_groups(sorted(cores), size)
    assert len(set(groups)) == len(groups)
    assert set(groups) == {
        tuple(range(first, first + size)) for first in cores if set(range(first, first + size)) <= cores
    }


@given(st.integers(1, 32), st.integers(1, 8))
def test_those_come_first_that_waste_no_core(count: int, size: int) -> None:
    groups = possible_groups(range(count), size)
    assert groups[: count // size] == [tuple(range(start, start + size)) for start in range(0, count - size + 1, size)]


@given(st.lists(st.integers(1, 8), max_size=6), st.sets(st.integers(0, 30)))
def test_groups_of_several_sizes_are_contiguous_and_apart(sizes: list[int], cores: set[int]) -> None:
    placed = lay_out(sizes, cores)
    found = [group for group in placed if group]
    assert all(group == tuple(range(group[0], group[0] + len(group))) for group in found)
    assert [len(group) for group, size in zip(placed, sizes, strict=True) if group] == [
        size for group, size in zip(placed, sizes, strict=True) if group
    ]
    held = [core for group in found for core in group]
    assert len(held) == len(set(held))
    assert set(held) <= cores


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_groups_that_fill_the_machine_all_find_a_place_in_any_order(sizes: list[int]) -> None:
    """Each worker comes alone, and sees only the cores that are left."""
    free, left = set(range(sum(sizes))), list(sizes)
    while left:
        group = lay_out(left, free)[0]
        assert group is not None
        free -= set(group)
        left.pop(0)
