"""A simulated candidate: in words, in the order of preference, and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from marina.plan.evaluation.limits import Reach
from marina.plan.evaluation.search import Evaluation
from marina.plan.workload import HERE


def describe(trial: Evaluation) -> str:
    """Describe a candidate on a number of instances in a few words."""
    candidate, count = trial
    place = candidate.place.name
    if place == HERE:
        where = "this machine" if count.count == 1 else f"{count.count} machines like this"
    else:
        where = place if count.count == 1 else f"{count.count} x {place}"
    variants = sorted({f"{variant.engine} {variant.precision}" for variant in candidate.variants})
    groups = " and ".join(",".join(map(str, cores)) for cores in dict.fromkeys(candidate.groups))
    basis = f" ({candidate.basis})" if candidate.basis else ""
    return (
        f"{where}{basis}: {' and '.join(variants)}, {len(candidate.variants[0].shapes)} graphs, groups {groups}, "
        f"batch {candidate.batch_size}, {f'delay {candidate.delay_ms}' if candidate.delay_ms else 'no delay'}"
    )


def trial_key(trial: Evaluation) -> tuple[str, int]:
    """Identifies a candidate on a number of instances."""
    return describe(trial), trial.figures.count


def rank(trial: Evaluation) -> tuple[float, float]:
    """By cost, then by the promised percentile."""
    figures = trial.figures
    return (figures.count if figures.usd_month is None else figures.usd_month), figures.sure


def trial_json(trial: Evaluation) -> dict[str, Any]:
    """A candidate and its figures as JSON types."""
    candidate = trial.candidate
    return {
        "on": candidate.place.name,
        "basis": candidate.basis or "measured here",
        "bounds": [list(variant.bounds) if variant.bounds else None for variant in candidate.variants],
        "engine": [variant.engine for variant in candidate.variants],
        "precision": [variant.precision for variant in candidate.variants],
        "shapes": [list(variant.shapes) for variant in candidate.variants],
        "core_groups": [",".join(map(str, cores)) for cores in candidate.groups],
        "workers": candidate.workers,
        "batch_size": candidate.batch_size,
        "batch_delay_ms": candidate.delay_ms,
        **{name: plain_json(value) for name, value in vars(trial.figures).items()},
    }


def recommendation(trial: Evaluation, reach: Reach) -> dict[str, Any]:
    """The choice with the field names of SageMaker Inference Recommender (API DescribeInferenceRecommendationsJob)."""
    figures, place = trial.figures, trial.candidate.place
    hour = None if place.per_hour is None else place.per_hour * figures.count
    return {
        "EndpointConfiguration": {
            "InstanceType": place.name if place.name == HERE else f"ml.{place.name}",
            "InitialInstanceCount": figures.count,
        },
        "Metrics": {
            "CostPerHour": hour,
            "CostPerInference": None if figures.usd_1m is None else figures.usd_1m / 1e6,
            "MaxInvocations": round(reach.per_minute),
            "ModelLatency": round(figures.p95 * 1000),
            "CpuUtilization": round(figures.utilisation * 100, 1),
            "MemoryUtilization": round(figures.megabytes / (place.memory_gib * 1024) * 100, 1),
        },
    }


def plain_json(value: Any) -> Any:
    """A figure as JSON has it: rounded, and null where nothing is answered."""
    if isinstance(value, Mapping):
        return {name: [plain_json(end) for end in ends] for name, ends in value.items()}
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value
