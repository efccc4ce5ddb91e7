"""Makes a plan: from a workload to an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handlers.worker.archive.artifact import read_artifact
from marina.bench.load.payload import MIX, read_instances, texts_of
from marina.client.stream import Limits
from marina.compiler.examples import expand, rows_of_text
from marina.compiler.lengths import count_tokens
from marina.console import Progress
from marina.errors import MarinaError, SpecError
from marina.plan.answers.answer import Recommendation, first_change
from marina.plan.evaluation.evaluate import Deployment, with_ranges
from marina.plan.evaluation.fleet import disrupt
from marina.plan.evaluation.limits import find_reach, largest_request
from marina.plan.evaluation.search import FINE_REQUESTS, search
from marina.plan.options.candidates import Candidate, candidates_of
from marina.plan.options.places import Calibrated, place_here, place_of
from marina.plan.simulator.values import Ints
from marina.plan.workload import HERE, Demand, Traffic, Workload, busiest, read_log
from marina.project import Project
from marina.shapes.auto import with_known_shapes
from marina.shapes.lengths import read_lengths
from marina.spec import read_spec

MAX_TEXTS = 4096


def make_plan(workload: Workload, project: Project, progress: Progress) -> Recommendation:
    """Find what to deploy for a workload.

    Args:
        workload: the requested workload.
        project: of the models.
        progress: called for every step.

    Raises:
        SpecError: a model, a file or an instance type is not known, or prices are missing.
        MarinaError: a model is not calibrated on this machine, or the models fit into no place.
    """
    models = [
        Calibrated(
            with_known_shapes(read_spec(project.models / f"{demand.name}.yaml"), project), project, workload.host
        )
        for demand in workload.models
    ]
    notes: tuple[str, ...] = ()
    if HERE in workload.places:
        progress("the speed of this machine", 0, 1)
        notes = tuple(note for note in [model.compare_speed() for model in models] if note)
    traffic = [traffic_of(demand, model, project) for demand, model in zip(workload.models, models, strict=True)]
    tokens = [model_traffic.tokens for model_traffic in traffic]
    places = [
        place_here(models, workload.price, tokens=tokens)
        if name == HERE
        else place_of(name, models, project.root, tokens)
        for name in dict.fromkeys(workload.places)
    ]
    unpriced = [place.name for place in places if place.per_hour is None]
    if unpriced and (len(places) > 1 or workload.budget):
        option = "--price USD" if unpriced[0] == HERE else "instances.yaml"
        raise SpecError(f"no price is known for {unpriced[0]}, so it cannot be compared; give one with {option}")
    candidates = [candidate for place in places for candidate in candidates_of(place)]
    if not candidates:
        raise MarinaError(
            f"a worker of each model does not fit into {' or '.join(place.name for place in places)}",
            "plan fewer models together, or name instances with more cores or memory with --on",
        )
    least_loaded = workload.balancer == "least"
    result = search(candidates, traffic, workload.promise, workload.budget, least_loaded, progress)
    if result.best is None:
        return Recommendation(workload, traffic, result, None, {}, "", notes=notes)
    progress("how far the choice carries", 0, 1)
    best = result.best.candidate
    deployment = Deployment(best, result.best.figures.count, traffic, workload.promise, least_loaded)
    result.best = result.best._replace(figures=with_ranges(result.best.figures, deployment, FINE_REQUESTS))
    reach = find_reach(deployment)
    mini_batch = {
        model.spec.name: _mini_batch(best, number, model_traffic, model)
        for number, (model_traffic, model) in enumerate(zip(traffic, models, strict=True))
    }
    instance_loss, upgrade = (disrupt(deployment, upgrade=upgrading) for upgrading in (False, True))
    change = first_change(result.best, traffic, workload)
    return Recommendation(workload, traffic, result, reach, mini_batch, change, instance_loss, upgrade, notes)


def _mini_batch(best: Candidate, number: int, traffic: Traffic, model: Calibrated) -> int:
    """The most texts of a request that a Lambda function behind an API may send, by bytes and by seconds."""
    alone = Candidate(
        best.place._replace(variants=(best.place.variants[number],)),
        (best.variants[number],),
        (best.groups[number],),
        best.batch_size,
        best.delay_ms,
    )
    limits = Limits.LAMBDA_GATEWAY
    bytes_a_text = 8 + 6 * float(traffic.tokens.mean())  # quotes, a comma, and words of about five letters
    max_texts = min(model.spec.serving.max_instances // traffic.rows, int(limits.request_bytes / bytes_a_text))
    return largest_request(alone, traffic, limits.seconds, max_texts)


def traffic_of(demand: Demand, model: Calibrated, project: Project) -> Traffic:
    """The requests of a model, with the lengths of its texts as the model reads them."""
    log, tokens, rows = None, None, rows_of_text(model.spec)
    if demand.log is not None:
        log, tokens = read_log(project.root / demand.log)
        log = busiest(log, FINE_REQUESTS)  # the peak
    rate = demand.peak or (len(log) / log[-1] if log is not None else 0.0)
    tokens = _tokens_of(demand, model, project, rows) if tokens is None else np.repeat(tokens, rows)
    return Traffic(float(rate), demand.instances, np.minimum(tokens, model.max_tokens), log, rows)


def _tokens_of(demand: Demand, model: Calibrated, project: Project, rows_of_text: int) -> Ints:
    source = demand.lengths or texts_of(model.spec, project)
    if demand.lengths and demand.lengths != MIX:
        source = str(project.root / demand.lengths)
    if source.endswith(".json"):
        return np.repeat(read_lengths(Path(source), model.spec.instance_fields, lambda _: []), rows_of_text)
    instances = read_instances(source, model.spec.instance_fields)[:MAX_TEXTS]
    _, folder = model.calibrations[0]
    return np.array(count_tokens(read_artifact(folder), expand(model.spec, instances)), np.int64)
