"""The precisions of embeddings in answers, in the terms of sentence-transformers."""

from __future__ import annotations

from typing import NamedTuple


class Precision(NamedTuple):
    """Its type in numpy, in little-endian order, and in the Open Inference Protocol."""

    dtype: str
    datatype: str


# in "ubinary" and "binary" a byte has the signs of eight values
PRECISIONS = {
    "float32": Precision("<f4", "FP32"),
    "binary": Precision("i1", "INT8"),
    "ubinary": Precision("u1", "UINT8"),
    "int8": Precision("i1", "INT8"),
    "uint8": Precision("u1", "UINT8"),
}
