from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.rows.repeats import distinct
from handlers.worker.values import Row

ROWS = st.builds(
    Row,
    st.lists(st.integers(0, 2), max_size=3),
    st.lists(st.integers(0, 1), max_size=1),
    st.integers(0, 1),
    st.just({}),
)


@given(st.lists(st.tuples(ROWS, st.integers(0, 1))))
def test_every_row_is_computed_once(batch: list[tuple[Row, int]]) -> None:
    found = distinct([row for row, _ in batch], [member for _, member in batch])
    computed = [batch[index] for index in found.rows]
    assert [computed[place] for place in found.places] == batch
    assert all(one not in computed[:number] for number, one in enumerate(computed))


def test_rows_of_a_preprocessing_module_are_all_computed() -> None:
    row = Row([], [], 0, {"x": [1.0]})
    assert distinct([row, row]).rows == [0, 1]
