"""`marina.Scorer` as Spark calls it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import marina
from tests.conftest import ROOT
from tests.marina.score.archives import project_with, texts_of

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]
COLUMNS = "id long, label string, score double, truncated boolean, error string"


def test_map_in_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    archive = str(project_with(tmp_path, "intent").model_store / "intent.mar")
    texts = texts_of(3000)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scorer = marina.Scorer(archive, keep=["id"], core_groups="1")
        for batch in batches:
            yield scorer(batch)

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.warehouse.dir", str(tmp_path)).getOrCreate()
    try:
        rows = [(number, text if number != 7 else None) for number, text in enumerate(texts)]
        frame = spark.createDataFrame(rows, "id long, text string").repartition(3)
        found = {row["id"]: row for row in frame.mapInArrow(answer, COLUMNS).collect()}
    finally:
        spark.stop()
    assert sorted(found) == list(range(3000))
    assert found[7]["error"].startswith("InvalidInstance")
    own = marina.Scorer(archive)(pa.RecordBatch.from_pydict({"text": texts})).to_pylist()
    assert all(found[n]["label"] == one["label"] for n, one in enumerate(own) if n != 7)
