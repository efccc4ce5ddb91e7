"""Workloads of a file, and the sweep, without a server."""

from __future__ import annotations

import itertools
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from benchmarks.verify import sweep as sweeping
from benchmarks.verify.cases import Case, draw_cases, read_cases
from benchmarks.verify.measure import Comparison, Figures, Prediction, Texts
from benchmarks.verify.report import coverage, medians, picture, rows
from marina.errors import SpecError
from marina.plan.options.candidates import Candidate
from tests.marina.plan.options.places import place, variant


def as_entry(case: Case) -> dict[str, Any]:
    entry = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(case).items()}
    del entry["number"]
    return entry


@pytest.mark.parametrize("host", ["torchserve", "direct"])
def test_workloads_of_a_file_are_those_that_were_drawn(tmp_path: Path, host: str) -> None:
    drawn = draw_cases(["a", "b"], 2, 10, [3], host)
    (tmp_path / "w.yaml").write_text(yaml.safe_dump([as_entry(case) for case in drawn]))
    assert read_cases(tmp_path / "w.yaml", ["a", "b"], host) == drawn


def test_each_seed_has_its_share_of_the_workloads() -> None:
    drawn = draw_cases(["a"], 2, 8, [5, 6, 7], "direct")
    parts = [draw_cases(["a"], 2, count, [seed], "direct") for seed, count in ((5, 3), (6, 3), (7, 2))]
    assert drawn == [replace(case, number=number) for number, case in enumerate(itertools.chain(*parts))]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"models": ["c"]}, "must have models of these: a"),
        ({"models": ["a", "a"]}, "instances and lengths for each"),
        ({"share": 1.5}, "share is between 0 and 1"),
        ({"batch_size": 0}, "at least 1"),
        ({"delay_ms": 0}, "with the host torchserve, delay_ms is at least 1"),
        ({"batch_size": "many"}, "batch_size: Input should be a valid integer"),
        ({"speed": 1}, "exactly the fields"),
    ],
)
def test_what_is_wrong_with_a_workload_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    (case,) = draw_cases(["a"], 2, 1, [0], "torchserve")
    (tmp_path / "w.yaml").write_text(yaml.safe_dump([{**as_entry(case), **changed}]))
    with pytest.raises(SpecError, match=message):
        read_cases(tmp_path / "w.yaml", ["a"], "torchserve")
    with pytest.raises(SpecError, match="cannot be read"):
        read_cases(tmp_path / "none.yaml", ["a"], "torchserve")


def test_a_sweep_says_how_far_the_choice_is_from_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Candidate(place(), (variant(),), ((1, 1),), 8, 1)  # is not in the grid

    def p99(case: Case) -> float:
        return 10.0 + case.batch_size / 100 + case.delay_ms - (case.groups == (1, 1)) * 3

    for name, found in {
        "texts_of": lambda *_: Texts(["ok"], np.array([3])),
        "capacity": lambda case, *_: 100.0 + case.batch_size,
        "predict": lambda case, *_: [Prediction(Figures(50, 5, p99(case)), (4, 6), (8, 20))],
        "serve": lambda *_: [],
        "measure": lambda case, *_: [Figures(50, 5, p99(case))],
        "measure_closed": lambda case, *_: [Figures(100 - case.delay_ms, 5, 9)],
        "_choice": lambda *_: chosen,
    }.items():
        monkeypatch.setattr(sweeping, name, found)
    model: Any = SimpleNamespace(spec=SimpleNamespace(name="m"), host="torchserve")
    server: Any = None
    rate, swept = sweeping.sweep(model, server, 2, 2, lambda *_: None)
    assert rate == pytest.approx(0.6 * 164)
    assert len(swept) == 2 * (1 + 3 * 2) + 1
    assert [one.case.groups for one in swept if one.chosen] == [(1, 1)]
    assert all(len(one.p99s) == len(one.rates) == 2 for one in swept)
    table = sweeping.rows(swept)
    assert table[0][:3] == ["1,1", "1", "1"]
    best, own = min(p99(one.case) for one in swept), next(p99(one.case) for one in swept if one.chosen)
    assert f"a p99 {own / best - 1:.1%} above the best of 15 measured ones" in sweeping.summary(rate, swept)


def test_coverage_counts_measurements_in_their_ranges() -> None:
    (case,) = draw_cases(["a"], 2, 1, [0], "direct")
    predicted = Prediction(Figures(50, 5, 9), (4, 6), (8, 20))
    comparisons = [
        Comparison(case, "a", 50, predicted, [Figures(50, 4.1, 9), Figures(50, 6.1, 20)]),
        Comparison(case, "a", 50, predicted, [Figures(50, 3.9, 9), Figures(50, 5, 20)]),
    ]
    assert coverage(comparisons) == {"p50": 0.5, "p99": 1.0}
    first, second = rows(comparisons)
    assert first[4:6] == ["5.0 (4.0 to 6.0)", "5.1"]
    assert second[8:10] == ["9.0 (8.0 to 20.0)", "14.5"]
    assert medians(comparisons)["error, all"]["p99"] == pytest.approx(1 - 9 / 14.5)
    assert picture(comparisons).startswith(b"<?xml")
