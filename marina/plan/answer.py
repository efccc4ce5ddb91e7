"""The answer to a workload: one sentence, what binds, what would change first, and how far it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from marina.bench.report.table import number
from marina.plan.candidates import Candidate, candidates_of
from marina.plan.evaluate import HOURS_A_MONTH, Prediction, evaluate
from marina.plan.fleet import HOURS, Disruption, by_hour
from marina.plan.limits import Reach
from marina.plan.search import FINE, Evaluation, Found, fastest
from marina.plan.workload import HERE, Traffic, Workload

BUSY = 0.7  # of the workers' time: above it, waiting for others is most of a tail
SHOWN = 12
SCALE_AT = 0.7  # of the calls that an instance can take, so that there is time to start another


@dataclass(frozen=True)
class Recommendation:
    """What to deploy.

    Attributes:
        workload: what was asked.
        traffic: of each model.
        found: the result of the search.
        reach: of the choice; None if there is none.
        mini_batch: the most texts of a request within the seconds of `workload`'s clients, by model.
        change: what to change first.
        lost, upgraded: the choice while an instance is lost, and while the instances are upgraded; None if it is one.
    """

    workload: Workload
    traffic: list[Traffic]
    found: Found
    reach: Reach | None
    mini_batch: dict[str, int]
    change: str
    lost: Disruption | None = None
    upgraded: Disruption | None = None

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        promise, best, nearest = self.workload.promise, self.found.best, self.found.nearest
        if best is None:
            if nearest is None:
                return f"None keeps {promise}: even alone and on an idle server a request takes longer."
            return (
                f"None keeps {promise}; the nearest is {described(nearest)}, with a p{promise.percentile:g} of "
                f"{number(nearest.figures.promised)} ms."
            )
        figures = best.figures
        price = "" if figures.usd_month is None else f", {number(figures.usd_month)} USD a month"
        return (
            f"{described(best)} keeps {promise} at {number(total(self.traffic))} requests per second: "
            f"p{promise.percentile:g} {number(figures.promised)} ms, {figures.utilisation:.0%} busy{price}."
        )

    @property
    def binds(self) -> str:
        """What keeps the choice, or the nearest, from more."""
        trial = self.found.best or self.found.nearest
        if trial is None:
            return "The time of one request alone binds: shorter texts, smaller shapes or a faster engine would help."
        promise, candidate = self.workload.promise, trial.candidate
        alone = fastest(candidate, self.traffic, promise.percentile)
        if alone > promise.latency_ms / 2:
            return f"The time of one request alone binds: {number(alone)} of {promise.latency_ms:g} ms."
        if candidate.delay_ms > promise.latency_ms / 4:
            return f"The batch delay binds: {candidate.delay_ms} of {promise.latency_ms:g} ms."
        if trial.figures.answered < promise.answered:
            return f"The queue binds: {1 - trial.figures.answered:.1%} of the requests find it full."
        if trial.figures.utilisation > BUSY:
            return f"The workers bind: they are busy for {trial.figures.utilisation:.0%} of the time."
        return "Nothing binds: there is room in every part, and the next smaller choice has too little."

    def lines(self) -> list[str]:
        """What else is worth a sentence: what binds, what to change, and Darwinbox's three questions."""
        found = [self.binds, *([self.change] if self.change else [])]
        best, reach = self.found.best, self.reach
        if best and reach:
            for name, most in self.mini_batch.items():
                found.append(
                    f"Mini-batches: at most {most} texts of {name} in a request through Lambda, by bytes and seconds."
                )
            found.append(
                f"Concurrent calls: {number(reach.per_minute)} a minute for an instance, and {number(reach.under_way)} "
                f"at the same time in all; the promise holds up to {number(reach.rate)} requests per second."
            )
            scale = reach.per_minute * SCALE_AT
            found.append(
                f"Machines: {best.figures.count}. Add one when each gets more than {number(scale)} calls a minute."
            )
            found += [line for line in (self._by_hour(best), self._disrupted()) if line]
        found.append(
            f"{self.found.candidates} candidates: {self.found.bounded} left out by bounds, "
            f"{len({key(trial)[0] for trial in self.found.trials})} simulated."
        )
        return found

    def by_hour(self) -> list[int]:
        """The least instances at each hour of the day; empty without a curve or a choice."""
        return by_hour(self.workload, total(self.traffic), self.reach) if self.reach else []

    def _by_hour(self, best: Evaluation) -> str:
        counts, price = self.by_hour(), best.candidate.place.per_hour
        if not counts or max(counts) == min(counts):
            return ""
        month = "" if price is None else f" That is {number(sum(counts) / HOURS * price * HOURS_A_MONTH)} USD a month."
        return f"By the hour: {min(counts)} to {max(counts)} machines keep the promise, if they follow the rate.{month}"

    def _disrupted(self) -> str:
        if not (self.lost and self.upgraded):
            return "If the only machine is lost, nothing answers until another one starts; --one-down plans for that."
        percentile = f"p{self.workload.promise.percentile:g}"
        return (
            f"While one machine is lost: {percentile} {number(self.lost.latency_ms)} ms, and its {self.lost.lost} "
            f"requests under way are lost. While all are upgraded one by one: {percentile} "
            f"{number(self.upgraded.latency_ms)} ms, {self.upgraded.lost or 'none'} lost."
        )

    def as_json(self) -> dict[str, Any]:
        """For programs: our names, with those of SageMaker Inference Recommender beside them."""
        best, nearest = self.found.best, self.found.nearest
        return {
            "answer": self.sentence,
            "binds": self.binds,
            "change_first": self.change,
            "choice": trial_json(best) if best else None,
            "nearest": None if best or nearest is None else trial_json(nearest),
            "max_requests_per_second": None if self.reach is None else round(self.reach.rate, 1),
            "max_under_way": None if self.reach is None else round(self.reach.under_way, 1),
            "mini_batch": self.mini_batch,
            "by_hour": self.by_hour(),
            "while_one_is_lost": self.lost._asdict() if self.lost else None,
            "while_upgraded": self.upgraded._asdict() if self.upgraded else None,
            "InferenceRecommendations": [recommendation(best, self.reach)] if best and self.reach else [],
            "candidates": self.found.candidates,
            "left_out_by_bounds": self.found.bounded,
            "simulated": [trial_json(trial) for trial in self.found.trials[-200:]],
        }

    def rows(self) -> list[list[str]]:
        """The choice, the best of every other place, and those that come nearest; of several that do the same, one."""
        kept = {key(trial): trial for trial in self.found.trials}
        ordered = sorted(kept.values(), key=lambda trial: (not trial.figures.keeps(self.workload.promise), rank(trial)))
        if self.found.best:
            ordered = [self.found.best, *ordered]
        alike = {(one.candidate.place.name, one.figures.count, round(one.figures.p99, 2)): one for one in ordered[::-1]}
        different = [one for one in ordered if any(one is other for other in alike.values())]
        first = list({one.candidate.place.name: one for one in different[::-1]}.values())
        shown = [one for place, one in enumerate(different) if one in first or place < SHOWN - len(first)]
        found = []
        for trial in shown:
            figures = trial.figures
            found.append(
                [
                    described(trial),
                    "yes" if figures.keeps(self.workload.promise) else "no",
                    *(number(value) for value in (figures.p50, figures.p95, figures.p99)),
                    f"{figures.utilisation:.0%}",
                    f"{figures.padding:.0%}",
                    f"{figures.megabytes:.0f}",
                    "" if figures.usd_month is None else number(figures.usd_month),
                    "" if figures.usd_1m is None else number(figures.usd_1m),
                ]
            )
        return found


COLUMNS = ["", "keeps", "p50 ms", "p95", "p99", "busy", "padding", "MB", "USD a month", "per 1M"]


def key(trial: Evaluation) -> tuple[str, int]:
    """Identifies a candidate on a number of instances."""
    return described(trial), trial.figures.count


def rank(trial: Evaluation) -> tuple[float, float]:
    """By cost, then by the promised percentile."""
    figures = trial.figures
    return (figures.count if figures.usd_month is None else figures.usd_month), figures.promised


def total(traffic: Sequence[Traffic]) -> float:
    """Requests per second of all models."""
    return sum(own.rate for own in traffic)


def described(trial: Evaluation) -> str:
    """A candidate on a number of instances, in a few words."""
    candidate, count = trial
    place = candidate.place.name
    if place == HERE:
        where = "this machine" if count.count == 1 else f"{count.count} machines like this"
    else:
        where = place if count.count == 1 else f"{count.count} x {place}"
    variants = sorted({f"{variant.engine} {variant.precision}" for variant in candidate.variants})
    groups = " and ".join(",".join(map(str, own)) for own in dict.fromkeys(candidate.groups))
    basis = f" ({candidate.basis})" if candidate.basis else ""
    return (
        f"{where}{basis}: {' and '.join(variants)}, {len(candidate.variants[0].shapes)} graphs, groups {groups}, "
        f"batch {candidate.batch_size}, delay {candidate.delay_ms}"
    )


def first_change(best: Evaluation, traffic: Sequence[Traffic], workload: Workload) -> str:
    """What lowers the promised percentile most: one instance more, or one setting of the choice changed."""
    least = workload.balancer == "least"
    now = best.figures.promised

    def of(candidate: Candidate, count: int) -> Prediction:
        return evaluate(candidate, count, traffic, workload.promise, FINE // 3, least)

    tried: list[tuple[float, str]] = [(of(best.candidate, best.figures.count + 1).promised, "one more instance")]
    for other in candidates_of(best.candidate.place):
        same = replace(other, groups=best.candidate.groups, variants=best.candidate.variants) == best.candidate
        if same and other.variants == best.candidate.variants and other.groups != best.candidate.groups:
            groups = ",".join(map(str, other.groups[0]))
            tried.append((of(other, best.figures.count).promised, f"core groups {groups}"))
        if same and other.groups == best.candidate.groups and other.variants != best.candidate.variants:
            variant = other.variants[0]
            what = f"{variant.engine} {variant.precision} with {len(variant.shapes)} graphs"
            tried.append((of(other, best.figures.count).promised, what))
    value, what = min(tried)
    percentile = f"p{workload.promise.percentile:g}"
    if value >= now * 0.98:
        return f"No single change lowers the {percentile} by more than 2 %."
    return f"To lower the {percentile} of {number(now)} ms first: {what}, which gives {number(value)} ms."


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
        "core_groups": [",".join(map(str, own)) for own in candidate.groups],
        "workers": candidate.workers,
        "batch_size": candidate.batch_size,
        "batch_delay_ms": candidate.delay_ms,
        **{name: round(value, 4) if isinstance(value, float) else value for name, value in vars(trial.figures).items()},
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
