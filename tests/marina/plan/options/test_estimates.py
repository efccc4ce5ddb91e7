"""Estimates for Inferentia against the figures that they come from, and others of the same table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handlers.worker.values import Shape
from marina.errors import SpecError
from marina.plan.options.estimates import BERT_BASE_WEIGHTS, BOUNDS, estimated_times, published_line, reported_line

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
    estimate = estimated_times(published_line(family), weights, (shape,))[shape]
    assert BOUNDS[0] * estimate <= published <= BOUNDS[1] * estimate


def test_an_instances_own_report_goes_before(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert reported_line(path, "inf2") is None
    trials = [{"graphs": {}}, {"graphs": {"1x32": 0.5, "4x128": 2.9}}]
    path.write_text(json.dumps({"engine": "neuronx", "encoder_weights": 1e6, "trials": trials}))
    line = reported_line(path, "inf2")
    assert line
    times = estimated_times(line, 2e6, (Shape(1, 32), Shape(4, 128)))
    assert times == pytest.approx({Shape(1, 32): 1.0, Shape(4, 128): 5.8})
    assert reported_line(path, "inf1") is None
    path.write_text("{}")
    with pytest.raises(SpecError, match="make verify-hardware"):
        reported_line(path, "inf2")
