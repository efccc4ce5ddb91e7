"""The time of one call of any shape, fitted to the measured times of some shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from handlers.worker.values import Shape

MIN_TIMES = 3  # from which the times of other shapes can be fitted


class CostModel:
    """Milliseconds of one call: c0 + c1 * rows * tokens + c2 * rows * tokens^2, with no negative coefficient.

    c0 is the cost of every call, such as reading the weights. c1 is the cost of matrix products with weights. c2 is the
    cost of attention's products of tokens with tokens. The fit minimises relative errors. Packed shapes have
    coefficients of their own.

    Args:
        times: measured milliseconds of at least three shapes with different rows * tokens; of packed shapes three more,
            or none.

    Attributes:
        packed: whether the times of packed shapes are fitted.
    """

    def __init__(self, times: Mapping[Shape, float]) -> None:
        times_by_packed = {
            packed: {shape: time for shape, time in times.items() if shape.packed == packed} for packed in (False, True)
        }
        self._factors = {
            packed: _fit(kind_times) for packed, kind_times in times_by_packed.items() if can_fit(kind_times)
        }
        self.packed = True in self._factors

    def milliseconds(self, shape: Shape) -> float:
        """The time of one call of a shape."""
        return float(_features(shape) @ self._factors[shape.packed])

    def error(self, times: Mapping[Shape, float]) -> float:
        """The largest relative difference from measured times."""
        return max(
            abs(self.milliseconds(shape) / time - 1) for shape, time in times.items() if shape.packed in self._factors
        )


def can_fit(times: Iterable[Shape]) -> bool:
    """Whether there are enough shapes, all packed or all not, to fit the times of other shapes."""
    return len({shape.tokens for shape in times}) >= MIN_TIMES


def _fit(times: Mapping[Shape, float]) -> npt.NDArray[np.float64]:
    features = np.array([_features(shape) for shape in times])
    measured = np.array(list(times.values()))
    return nonnegative_factors(features, measured)


def _features(shape: Shape) -> npt.NDArray[np.float64]:
    return np.array([1.0, shape.tokens, shape.tokens * shape.sequence_length])


def nonnegative_factors(
    features: npt.NDArray[np.float64], measured: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The nonnegative factors for which features @ factors is closest to `measured`, by relative errors."""
    relative = features / measured[:, None]
    sizes = np.linalg.norm(relative, axis=0)  # columns differ by magnitudes, so they are brought to one size
    factors: npt.NDArray[np.float64] = nnls(relative / sizes, np.ones(len(measured)))[0] / sizes
    return factors
