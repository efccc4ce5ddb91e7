"""AWS's recommendations beside ours: the JSON that `aws sagemaker describe-inference-recommendations-job` prints.

Source of the field names: the API reference of SageMaker, DescribeInferenceRecommendationsJob.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marina.bench.report.table import number
from marina.errors import SpecError
from marina.plan.answers.answer import Recommendation
from marina.plan.answers.trials import describe, recommendation

COLUMNS = ["", "instances", "calls a minute", "latency ms", "USD an hour", "USD for 1M"]


def read_recommendations(path: Path) -> list[dict[str, Any]]:
    """The recommendations of a job.

    Raises:
        SpecError: the file cannot be read, or has none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = document["InferenceRecommendations"]
        for entry in entries:
            _row(entry)
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"{path} has no {error}; it must be what aws sagemaker describe-inference-recommendations-job prints"
        ) from None
    if not entries:
        raise SpecError(f"{path} has no recommendations; has the job ended?")
    return list(entries)


def comparison_table(theirs: list[dict[str, Any]], answer: Recommendation) -> tuple[list[str], list[list[str]]]:
    """A table: columns and rows, AWS's first."""
    rows = []
    for entry in theirs:
        name, *figures = _row(entry)
        rows.append([f"AWS: {name}", *figures])
    if answer.result.best and answer.reach:
        _, *figures = _row(recommendation(answer.result.best, answer.reach))
        rows.append([f"Marina: {describe(answer.result.best)}", *figures])
    return COLUMNS, rows


def _row(entry: dict[str, Any]) -> list[str]:
    """The instance type and its figures; KeyError if the entry lacks what a row needs."""
    metrics, endpoint = entry["Metrics"], entry["EndpointConfiguration"]
    cost = metrics.get("CostPerInference")
    return [
        endpoint["InstanceType"],
        str(endpoint.get("InitialInstanceCount", "")),
        str(metrics.get("MaxInvocations", "")),
        number(metrics["ModelLatency"] / 1000),
        "" if metrics.get("CostPerHour") is None else number(metrics["CostPerHour"], 3),
        "" if cost is None else number(cost * 1e6, 3),
    ]
