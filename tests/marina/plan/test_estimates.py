"""Estimates for Inferentia against the figures that they come from, and others of the same table."""

from __future__ import annotations

import pytest

from handlers.worker.values import Shape
from marina.plan.estimates import BERT_BASE_WEIGHTS, BOUNDS, estimated_times

# texts a second and the cores they were measured on, batch size, weights of the encoder: AWS's table
PUBLISHED = [
    ("inf1", 1095, 4, 8, BERT_BASE_WEIGHTS),
    ("inf2", 2674, 2, 8, BERT_BASE_WEIGHTS),
    ("inf2", 1998, 2, 1, BERT_BASE_WEIGHTS),
    ("trn1", 3422, 2, 16, BERT_BASE_WEIGHTS),
    ("inf1", 1875, 4, 8, BERT_BASE_WEIGHTS / 2),
    ("inf2", 5308, 2, 16, BERT_BASE_WEIGHTS / 2),
    ("inf2", 950, 2, 4, 302e6),
]


@pytest.mark.parametrize(("family", "rate", "cores", "batch", "weights"), PUBLISHED)
def test_published_figures_are_within_the_bounds(
    family: str, rate: float, cores: int, batch: int, weights: float
) -> None:
    shape = Shape(batch, 128)
    published = batch * cores / rate * 1000
    estimate = estimated_times(family, weights, (shape,))[shape]
    assert BOUNDS[0] * estimate <= published <= BOUNDS[1] * estimate
