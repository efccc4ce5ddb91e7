"""Writes a choice into the specs of its models, and leaves the rest of their files unchanged."""

from __future__ import annotations

from pathlib import Path

import yaml

from marina.files import write_json
from marina.plan.answers.answer import SCALE_AT, Recommendation, total_rate
from marina.plan.answers.trials import trial_json
from marina.plan.evaluation.limits import Reach
from marina.plan.evaluation.search import Evaluation
from marina.plan.workload import HERE
from marina.project import Project
from marina.shapes.write import write_fields


def write_choice(answer: Recommendation, project: Project) -> list[Path]:
    """Write how to compile and to serve into models/NAME.yaml, and the number of instances into build/plan/plan.json.

    Returns:
        The written files: none if no candidate keeps the promise.

    Raises:
        SpecError: a spec would become invalid; then no file is changed.
    """
    best, reach = answer.result.best, answer.reach
    if best is None or reach is None:
        return []
    candidate = best.candidate
    changes: dict[Path, dict[str, object]] = {}
    for number, demand in enumerate(answer.workload.models):
        path = project.models / f"{demand.name}.yaml"
        variant = candidate.variants[number]
        changes[path] = {
            "engine": variant.engine,
            "precision": variant.precision,
            "shapes": {"exact": list(variant.shapes)},
            "core_groups": ",".join(map(str, candidate.groups[number])),
            "serving": {
                **(yaml.safe_load(path.read_text(encoding="utf-8")).get("serving") or {}),
                "batch_size": candidate.batch_size,
                **({"batch_delay_ms": candidate.delay_ms} if candidate.delay_ms else {}),
            },
        }
    write_fields(changes)
    plan = project.root / "build" / "plan" / "plan.json"
    plan.parent.mkdir(parents=True, exist_ok=True)
    write_json(plan, plan_json(answer, best, reach))
    return [*changes, plan]


def plan_json(answer: Recommendation, best: Evaluation, reach: Reach) -> dict[str, object]:
    """The input of `marina deploy --plan`: see `marina.deploy.scale.Scale`."""
    names = [demand.name for demand in answer.workload.models]
    workload_rate = total_rate(answer.traffic)
    calls = reach.per_minute * SCALE_AT
    load = calls * best.figures.count / (60 * workload_rate)  # of the workload's rate, when an instance is to be added
    place = best.candidate.place
    return {
        "models": names,
        "host": place.host,
        "instance_type": None if place.name == HERE else place.name,
        "cores": place.cores,
        "instances": best.figures.count,
        "least_instances": min(answer.by_hour() or [best.figures.count]),
        "calls_per_minute": {
            name: round(calls * model_traffic.rate / workload_rate)
            for name, model_traffic in zip(names, answer.traffic, strict=True)
        },
        "under_way": round(SCALE_AT * reach.under_way / best.figures.count, 2),
        "busy": round(min(1.0, best.figures.utilisation * load), 3),
        "choice": trial_json(best),
    }
