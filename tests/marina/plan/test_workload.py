"""What is asked of a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marina.errors import SpecError
from marina.fields import read_fields
from marina.plan.workload import Traffic, Workload, busiest, draw, read_log

WORKLOAD = """
models:
  - {name: intents, rate: 120}
  - {name: search, curve: {0: 5, 9: 80, 18: 40}, instances: 8, lengths: mix}
promise: {percentile: 95, latency_ms: 50, one_down: true}
places: [here, inf2.xlarge]
price: 0.1
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    found = read_fields(tmp_path / "workload.yaml", Workload)
    assert [one.peak for one in found.models] == [120, 80]
    assert str(found.promise) == "p95 <= 50 ms while one instance is down"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rate: 120", "rates: 120"),
        ("rate: 120", "rate: -1"),
        (", rate: 120", ""),
        ("percentile: 95", "percentile: 100"),
        ("{0: 5, 9: 80, 18: 40}", "{0: 0}"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "workload.yaml").write_text(WORKLOAD.replace(old, new))
    with pytest.raises(SpecError, match=r"workload.yaml: (models|promise)"):
        read_fields(tmp_path / "workload.yaml", Workload)


@pytest.mark.parametrize(
    ("content", "message"), [(b'note: "caf\xe9"\n', "can't decode byte 0xe9"), (b"models: [", "expected the node")]
)
def test_a_file_that_is_no_yaml_is_refused_on_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "workload.yaml").write_bytes(content)
    with pytest.raises(SpecError, match=rf"workload.yaml cannot be read: .*{message}") as refused:
        read_fields(tmp_path / "workload.yaml", Workload)
    assert "\n" not in str(refused.value)


def test_requests_come_at_their_rates() -> None:
    own = [Traffic(100, 1, np.array([5, 7])), Traffic(50, 3, np.array([9]))]
    drawn = draw(own, 30_000, 0.5, 0)
    assert (np.diff(drawn.at) >= 0).all()
    for number, rate in enumerate((50, 25)):
        at = drawn.at[drawn.model == number]
        assert len(at) / at[-1] * 1000 == pytest.approx(rate, rel=0.03)
    lengths = np.diff(drawn.first)
    assert (lengths == np.where(drawn.model == 0, 1, 3)).all()
    second = np.flatnonzero(drawn.model == 1)[0]
    assert drawn.tokens[drawn.first[second] : drawn.first[second + 1]].tolist() == [9, 9, 9]


def test_the_rows_of_a_text_stay_together() -> None:
    traffic = Traffic(10, 2, np.array([5, 6, 70, 71]), rows=2)
    drawn = draw([traffic], 500, 1.0, 0)
    assert (np.diff(drawn.first) == traffic.rows_of_request).all()
    assert {tuple(text) for text in drawn.tokens.reshape(-1, 2).tolist()} == {(5, 6), (70, 71)}


def test_a_log_is_replayed_at_any_rate(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("seconds,tokens\n12.5,9\n10.0,8\n10.5,7\n20.0,6\n")
    seconds, tokens = read_log(path)
    assert seconds.tolist() == [0, 0.5, 2.5, 10]
    assert tokens is not None
    assert tokens.tolist() == [8, 7, 9, 6]
    drawn = draw([Traffic(0.8, 1, tokens, seconds)], 4, 1.0, 0)
    assert drawn.at.tolist() == pytest.approx([0, 250, 1250, 5000])


@pytest.mark.parametrize("models", [1, 2])
def test_of_a_short_log_at_least_one_request_comes(models: int) -> None:
    traffic = Traffic(100, 1, np.array([5]), np.array([0.0, 1.0]))
    for seed in range(20):
        assert set(draw([traffic] * models, 1500, 0.6, seed).model.tolist()) == set(range(models))


def test_of_a_log_the_peak_is_replayed() -> None:
    day = np.concatenate([np.arange(100.0), 100 + np.arange(100) / 100])
    peak = busiest(day, 50)
    assert peak == pytest.approx(np.arange(50) / 100)
    assert busiest(day, 200) is day
    at_once = np.array([0.0, 5, 5, 5, 6])
    assert busiest(at_once, 3).tolist() == [0, 0, 1]


def test_one_of_several_instances_gets_its_share_of_the_whole_log() -> None:
    log = np.sort(np.random.default_rng(0).uniform(0, 100, 5000))
    traffic = Traffic(50, 1, np.array([5]), log)
    drawn = draw([traffic], 5000, 0.1, 0)
    assert len(drawn.at) == 5000
    assert len(drawn.at) / drawn.at[-1] * 1000 == pytest.approx(5, rel=0.01)
    part = draw([traffic], 5000, 0.7, 0)
    assert len(part.at) / part.at[-1] * 1000 == pytest.approx(35, rel=0.03)


@pytest.mark.parametrize(
    "content",
    [
        "time\n1\n2\n",
        "seconds\n1\n",
        "seconds\n1\n1\n",
        "seconds\none\n2\n",
        "seconds,tokens\n1,5\n2\n",
        "tokens,seconds\n5\n",
        "seconds,tokens\n1,5\n2,0\n",
        "seconds,tokens\n1,5\n2,-5\n",
        "seconds,tokens\n1,5\n2,99999999999999999999\n",
        "seconds\n1\nnan\n",
        "seconds\n1\ninf\n",
    ],
)
def test_a_log_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises(SpecError, match=r"log.csv"):
        read_log(tmp_path / "log.csv")


def test_a_log_that_excel_saved_is_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbfseconds\r\n1\r\n3\r\n")
    assert read_log(tmp_path / "log.csv")[0].tolist() == [0, 2]
