import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from marina.bench.load.measurement import GeneratorLimit, GeneratorMetrics, Measurement
from marina.bench.report.csv_file import csv_of
from marina.bench.report.figures import figures_of
from marina.bench.report.page import page_of
from marina.bench.report.pictures import pictures_of
from marina.bench.report.results import Configuration, Result, read_result, write_result
from marina.bench.report.standard import comparison_note, notes_of, table_of
from marina.bench.report.table import markdown_of
from marina.bench.report.write import write_reports
from marina.bench.tables.kinds import draw, layout_of
from marina.drawing import label_apart, new_figure
from marina.errors import SpecError
from tests.marina.bench.results import entry, measured, result

TWO = result(
    [
        entry([measured(100), measured(102), measured(98)], precision="f32"),
        entry([measured(201), measured(200), measured(199)], precision="int8"),
        entry([measured(202), measured(198), measured(200)], precision="bf16"),
    ],
    baseline=Configuration(precision="f32"),
)


def test_figures_are_medians_over_rounds_with_ratios_within_them() -> None:
    f32, int8, bf16 = figures_of(TWO)
    assert f32.throughput.median == 100
    assert int8.speedup is not None
    assert int8.speedup.median == pytest.approx(2.01, abs=0.03)
    assert int8.cost_ratio == pytest.approx(1 / int8.speedup.median)
    assert f32.cost == pytest.approx(1e6 / (3600 * 100))
    assert [one.place for one in (f32, int8, bf16)] == ["3", "1=", "1="]
    assert "the difference is not significant" in " ".join(notes_of(TWO))


def test_one_round_tells_no_places() -> None:
    once = result([entry([measured(100)], precision="f32"), entry([measured(200)], precision="int8")])
    assert [one.place for one in figures_of(once)] == ["", ""]


def test_configurations_are_compared_under_the_same_load_only() -> None:
    rounds = [measured(100), measured(101), measured(102)]
    mixed = result([entry(rounds, connections=1), entry(rounds, connections=64)])
    assert [one.place for one in figures_of(mixed)] == ["", ""]


def test_another_model_is_no_baseline() -> None:
    rounds = [measured(100), measured(101), measured(102)]
    two = result(
        [entry(rounds, strategy="usual"), entry(rounds, model="other", strategy="ours")],
        baseline=Configuration(strategy="usual"),
    )
    assert [figure.speedup is None for figure in figures_of(two)] == [False, True]
    assert table_of(two).columns[:2] == ["model", "strategy"]


def test_the_table_has_what_varies_and_tells_errors_beside_it() -> None:
    failing = measured(100, errors={"HTTP 503": 7}, stable=False)
    limited = GeneratorMetrics(1, 0.9, 0.0, None, GeneratorLimit("busy", "the generator itself may be the limit"))
    slow = measured(50, generator=limited)
    table = table_of(result([entry([failing], connections=1), entry([slow], connections=2)]))
    assert table.columns[0] == "conn."
    assert "model" not in table.columns
    assert table.rows[0][table.columns.index("errors")] == "7"
    assert table.rows[0][table.columns.index("settled")] == "no"
    notes = notes_of(result([entry([failing], connections=1), entry([slow], connections=2)]))
    assert any(note == "error: 7 x HTTP 503" for note in notes)
    assert any("generator itself" in note for note in notes)


def test_a_configuration_that_answered_nothing_is_shown_and_not_drawn() -> None:
    none = replace(measured(0), latency_ms={}, errors={"connection refused": 9}, per_second=[], windows=[], server=None)
    broken = result([entry([none], connections=1), entry([measured(10)], connections=2)])
    table = table_of(broken)
    assert table.rows[0][table.columns.index("p99 ms")] == ""
    assert pictures_of(broken)
    assert next(csv.DictReader(io.StringIO(csv_of(broken))))["latency_ms_p99"] == ""


def test_the_csv_has_the_columns_of_neuronperf_and_of_torchserves_tool() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of(TWO))))
    assert {
        "throughput_avg",
        "throughput_peak",
        "latency_ms_p50",
        "latency_ms_p95",
        "latency_ms_p99",
        "total_infs",
    } <= set(rows[0])
    assert {"cost_per_1m_inf", "Batch size", "Concurrency", "TS throughput", "TS latency P99", "TS error rate"} <= set(
        rows[0]
    )
    assert float(rows[1]["throughput_avg"]) == 200
    assert float(rows[1]["latency_ms_p50"]) == pytest.approx(15, abs=0.1)
    assert float(rows[0]["cost_per_1m_inf"]) == pytest.approx(2.7778, abs=1e-3)


def test_pictures_are_drawn_and_the_page_holds_all_of_them() -> None:
    pictures = pictures_of(TWO)
    assert {"latency-throughput", "cost-p99", "latency-percentiles", "over-time", "padding", "stages"} == set(pictures)
    assert all(picture.startswith(b"<?xml") and b"</svg>" in picture for picture in pictures.values())
    assert pictures == pictures_of(TWO)  # the same result gives the same files
    page = page_of(TWO, layout_of(TWO), pictures)
    assert page.count("data:image/svg+xml") == len(pictures)
    assert "a &lt;title&gt;" in page
    assert "<title>a <title>" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_one_run_is_drawn_with_its_histogram_and_no_lone_bar() -> None:
    assert set(pictures_of(result([entry([measured(100)])]))) == {"latency-histogram", "over-time", "stages"}


def test_labels_that_would_cover_each_other_are_moved_or_left_out() -> None:
    with new_figure() as (figure, (axis,)):
        axis.plot([0, 1], [0, 1])
        label_apart(axis, [(f"label {number}", (0.5, 0.5)) for number in range(20)])
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axis.texts]
        assert 2 <= len(boxes) < 20
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_report_begins_with_its_conclusion(tmp_path: Path) -> None:
    said = layout_of(TWO).conclusion
    assert said == (
        "int8 is fastest: 200 instances per second, with a median of 15.0 ms and a p99 of 19.9 ms at 16 connections. "
        "That is 2.01 times the baseline. The difference from bf16 is not significant. "
        "In the worker, the graphs took 90% of the time. A million inferences cost 1.389 USD."
    )
    write_reports(TWO, layout_of(TWO), {}, tmp_path)
    assert (tmp_path / "report.md").read_text().startswith(f"**{said}**")
    page = (tmp_path / "report.html").read_text()
    assert page.index(said) < page.index("<table>")
    alone = layout_of(result([entry([measured(100)])])).conclusion
    assert alone.startswith("m answered 100 instances per second, with a median of 15.0 ms")
    waiting = replace(measured(9).server, queue_ms=80.0)  # type: ignore[type-var]
    full = layout_of(result([entry([measured(100, server=waiting)])])).conclusion
    assert "A request waited 80.0 ms in the queue: the workers are the bottleneck." in full


def test_a_conclusion_compares_only_what_places_compare() -> None:
    rounds = [measured(100), measured(101), measured(102)]
    models = result([entry(rounds, model=model, strategy=how) for model in ("m", "n") for how in ("a", "b")])
    assert "The difference from m, b is not significant." in layout_of(models).conclusion


def test_a_stored_result_makes_the_same_reports(tmp_path: Path) -> None:
    write_reports(TWO, layout_of(TWO), draw(TWO), tmp_path / "one")
    again = read_result(tmp_path / "one" / "result.json")
    assert again == TWO
    write_reports(again, layout_of(again), draw(again), tmp_path / "two")
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_markdown_has_every_cell() -> None:
    text = markdown_of(layout_of(TWO))
    for table in layout_of(TWO).tables:
        for row in table.rows:
            assert f"| {' | '.join(row)} |" in text


def test_histograms_in_a_result_are_there_to_be_merged_again(tmp_path: Path) -> None:
    path = write_result(TWO, tmp_path)
    stored = json.loads(path.read_text())["entries"][0]["rounds"][0]
    assert TypeAdapter(Measurement).validate_python(stored) == TWO.entries[0].rounds[0]


@pytest.mark.parametrize("content", ["", "{}", '{"format": 99}', "[1]"])
def test_what_is_no_result_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(SpecError, match="is not a result of marina bench"):
        read_result(path)


def test_a_result_knows_its_machine_by_itself() -> None:
    made = Result("bench", "t", [entry([measured(1)])])
    assert made.machine["cores"] >= 1
    assert made.machine["packages"]["torchserve"]
    assert made.machine["processor"]


def test_a_run_is_compared_with_the_one_before_if_the_load_is_the_same() -> None:
    now, before = (result([entry([measured(rate)], connections=1)]) for rate in (110, 100))
    note = comparison_note(now, replace(before, made="2026-01-02"))
    assert note is not None
    assert note.startswith("since the run of 2026-01-02: +10% instances per second, p50 ")
    other = result([entry([measured(100)], connections=2)])
    assert comparison_note(now, replace(other, made="2026-01-02")) is None
    assert comparison_note(now, replace(TWO, made="2026-01-02")) is None


def test_a_stored_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    run = result([entry([measured(100)])])
    assert comparison_note(run, read_result(write_result(run, tmp_path))) is None


def test_a_busy_machine_is_told_on_top_of_the_page() -> None:
    quiet = result([entry([measured(100)])])
    busy = replace(quiet, more={"busy": 0.4})
    warning = "the machine was busy before the load: 40% of its cores"
    assert warning in page_of(busy, layout_of(busy), {}).partition("<table>")[0]
    assert warning not in page_of(quiet, layout_of(quiet), {})
    assert "<b>100</b><span>instances per second</span>" in page_of(quiet, layout_of(quiet), {})
