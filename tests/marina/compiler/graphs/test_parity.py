import pytest
from hypothesis import given
from hypothesis import strategies as st

from marina.compiler.graphs.parity import round_up


@given(st.floats(1e-12, 1e6))
def test_rounding_keeps_one_digit_and_never_rounds_down(value: float) -> None:
    rounded = round_up(value)
    assert value <= rounded * (1 + 1e-12)
    assert rounded <= value * 2
    assert len(f"{rounded:e}".split("e")[0].rstrip("0").rstrip(".")) == 1


@pytest.mark.parametrize(("value", "rounded"), [(0.0, 0.0), (2.3e-7, 3e-7), (9.5e-7, 1e-6), (1.0, 1.0)])
def test_some_values(value: float, rounded: float) -> None:
    assert round_up(value) == rounded
