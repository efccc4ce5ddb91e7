"""Values become the Arrow arrays that pyarrow itself would make of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.worker.tasks.columns import ValueKind
from marina.score.answers import ERROR, TRUNCATED, TYPES, array_of

VECTOR = TYPES[ValueKind.VECTOR]
VALUES = {
    VECTOR: st.lists(st.floats(width=32, allow_nan=False), max_size=4),
    TRUNCATED.type: st.booleans(),
    ERROR.type: st.text(max_size=4),
    TYPES[ValueKind.NUMBER]: st.floats(allow_nan=False),
    TYPES[ValueKind.MATRIX]: st.lists(st.lists(st.floats(width=32, allow_nan=False), max_size=2), max_size=3),
}


@given(st.data(), st.sampled_from(list(VALUES)))
def test_values_come_back(data: st.DataObject, data_type: pa.DataType) -> None:
    values = data.draw(st.lists(st.none() | VALUES[data_type], max_size=20))
    array = array_of(values, data_type)
    array.validate(full=True)
    assert array.equals(pa.array(values, data_type))


def test_vectors_of_graphs_become_buffers() -> None:
    vectors = [np.array([0.5, -1.0], np.float32), None, np.array([0.1, 3.0], np.float32)]
    array = array_of(vectors, VECTOR)
    assert array.type == VECTOR
    assert array.to_pylist() == [None if vector is None else vector.tolist() for vector in vectors]


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ("[[0.5, 1.0], None]", "pa.list_(pa.float32())"),
        ("[True, False, None]", "pa.bool_()"),
        ("[None, None]", "pa.string()"),
    ],
)
def test_the_values_of_every_embedding_import_no_pandas(values: str, data_type: str) -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from marina.score.answers import array_of\n"
        f"array_of({values}, {data_type})\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
