"""AWS's recommendations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marina.errors import SpecError
from marina.plan.answers.answer import Recommendation
from marina.plan.answers.recommender import comparison_table, read_recommendations
from marina.plan.evaluation.search import SearchResult
from marina.plan.workload import Demand, Promise, Workload

RECOMMENDED = {
    "Metrics": {"CostPerHour": 0.9, "CostPerInference": 1.2e-06, "MaxInvocations": 5400, "ModelLatency": 18500},
    "EndpointConfiguration": {"InstanceType": "ml.inf1.2xlarge", "InitialInstanceCount": 1},
}


def test_they_stand_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"InferenceRecommendations": [RECOMMENDED]}))
    theirs = read_recommendations(tmp_path / "job.json")
    asked = Workload(models=(Demand(name="m", rate=1),), promise=Promise(latency_ms=1))
    columns, (row,) = comparison_table(theirs, Recommendation(asked, [], SearchResult(), None, {}, ""))
    assert len(columns) == len(row)
    assert row == ["AWS: ml.inf1.2xlarge", "1", "5400", "18.5", "0.900", "1.200"]


NONE, EMPTY = '{"InferenceRecommendations": []}', '{"InferenceRecommendations": [{}]}'
SERVERLESS = {**RECOMMENDED, "EndpointConfiguration": {"ServerlessConfig": {"MemorySizeInMB": 2048}}}
NO_INSTANCE = json.dumps({"InferenceRecommendations": [SERVERLESS]})


@pytest.mark.parametrize("content", ["{}", "[]", "nothing", NONE, EMPTY, NO_INSTANCE])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    with pytest.raises(SpecError, match=r"job.json"):
        read_recommendations(tmp_path / "job.json")
