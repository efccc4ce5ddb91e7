"""Archives, and answers in bulk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import assert_type

import marina
from marina import Scorer, read_archive, read_artifacts


def archives(path: Path) -> None:
    artifact = read_archive(path)
    assert_type(artifact.task, str)
    assert_type(read_archive("model_store/m.mar").engine, str)
    assert_type(list(read_artifacts(path)), list[str])
    read_archive(5)  # type: ignore[arg-type]


def score(batch: Any) -> None:
    scorer = Scorer("m.mar", model="n", columns={"text": "title"}, parameters={"top_k": 3}, keep=["id"], prefix="p_")
    assert_type(scorer, marina.Scorer)
    assert_type(scorer.longest_row_ms, float)
    scorer(batch)
    Scorer("m.mar", keep=["id"], prefix=None)  # type: ignore[arg-type]
    Scorer()  # type: ignore[call-arg]
