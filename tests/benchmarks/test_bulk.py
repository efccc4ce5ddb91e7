"""The table of jobs in bulk, from made-up figures; and what watches a job's memory."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kinds import TABLES
from benchmarks.tables import bulk
from marina.bench.report.table import markdown_of
from marina.bench.tables.kinds import draw, layout_of
from tests.marina.bench.results import entry, measured, result
from tests.marina.score.archives import project_with


def test_ratios_are_within_rounds() -> None:
    rates = {bulk.BARE: 100.0, f"{bulk.SCORE}, int8": 95.0, bulk.TORCH: 19.0, bulk.OPENVINO: 50.0}
    entries = [
        entry([measured(rate * factor, 1.0) for factor in (1.0, 2.0)], strategy=name) for name, rate in rates.items()
    ]
    made = result(entries, kind=bulk.KIND, more={"megabytes": {"10,000": 400.0, "1,000,000": 410.0}})
    layout = layout_of(made, TABLES)
    assert layout.conclusion == (
        "marina score answers 142 rows per second: 95% of what its graphs compute in a loop, 5.0 times "
        "sentence-transformers with torch, and 1.9 times its OpenVINO backend in int8."
    )
    assert "| 1,000,000 | 410 |" in markdown_of(layout)
    assert draw(made, TABLES)["throughput"].startswith(b"<?xml")


def test_a_job_is_run_and_its_memory_is_seen(tmp_path: Path) -> None:
    project = project_with(tmp_path, "intent")
    source, output = project.root / "texts.parquet", project.root / "answers.parquet"
    bulk._write_parquet(source, ["change company address", "hello"], 5)
    for _ in range(2):  # from the beginning each time
        document, megabytes = bulk.run_score(project.root, "intent", source, output, watch=True)
        assert document["rows_here"] == 5
        assert megabytes > 50


def test_texts_are_generated_alike_each_time() -> None:
    texts = bulk.generated_texts(500)
    assert texts == bulk.generated_texts(500)
    lengths = [len(text.split()) + 2 for text in texts]
    assert 8 <= min(lengths) < max(lengths) <= 256
    assert 80 < sum(lengths) / len(lengths) < 100
