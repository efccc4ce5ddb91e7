import pytest

from handlers.worker.values import Shape
from marina.shapes.report import effect


def test_both_kinds_of_waste_are_told_apart() -> None:
    # two calls of 4x10 for 5 texts of 8 tokens: 40 of 80 tokens are texts
    found = effect([8] * 5, [Shape(4, 10)], lambda _: 3.0, rows=5)
    assert found.milliseconds == pytest.approx(6 / 5)
    assert found.length_waste == pytest.approx(10 / 80)
    assert found.empty_waste == pytest.approx(30 / 80)
    assert found.waste == pytest.approx(0.5)


def test_texts_come_in_batches() -> None:
    alone = effect([8] * 4, [Shape(1, 8), Shape(4, 8)], lambda shape: float(shape.batch_size), rows=1)
    assert (alone.milliseconds, alone.waste) == (1.0, 0.0)
