"""Arrays of numbers in answers, as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.request.documents import dump


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_float32_come_back_as_they_were(values: list[float]) -> None:
    vector = np.array(values, np.float32)
    read = np.array(json.loads(dump([vector]))[0], np.float32)
    assert read.tobytes() == vector.tobytes()


def test_float32_have_no_more_digits_than_they_need() -> None:
    assert dump(np.array([0.1, -2.5e-9], np.float32)) == b"[0.1,-2.5e-9]"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_embeddings_are_whole_numbers(dtype: str) -> None:
    assert json.loads(dump({"data": np.array([0, 1, 127], dtype)})) == {"data": [0, 1, 127]}
