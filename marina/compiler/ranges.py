"""The file with the ranges of embeddings, for int8: `ranges` of a spec."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from marina.errors import SpecError
from marina.spec import Spec

Ranges = tuple[tuple[float, ...], ...]


def read_ranges(spec: Spec, root: Path) -> Ranges:
    """The least and the greatest value of every place of an embedding; empty if the spec names no file.

    Raises:
        SpecError: the file is missing, or is no array of shape (2, width) of numbers.
    """
    if spec.ranges is None:
        return ()
    where = f"models/{spec.name}.yaml: ranges: {spec.ranges}"
    try:
        with (root / spec.ranges).open("rb") as file:
            stored = np.load(file, allow_pickle=False)
        if not isinstance(stored, np.ndarray) or stored.dtype.kind not in "fiu":
            raise ValueError("it is no array of numbers")
        with np.errstate(over="ignore"):
            values = stored.astype(np.float32)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise SpecError(f"{where} cannot be read: {error}", "write it with numpy.save") from None
    if values.ndim != 2 or len(values) != 2 or not np.isfinite(values).all() or (values[0] > values[1]).any():
        raise SpecError(
            f"{where} has the shape {values.shape}, or values that are no ranges",
            "write numpy.stack([embeddings.min(0), embeddings.max(0)])",
        )
    return tuple(tuple(row.tolist()) for row in values)
