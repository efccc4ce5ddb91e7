"""The answer to a workload: one sentence, the bottleneck, the first change to make, and the reach of the choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from marina.bench.report.table import number
from marina.plan.answers.trials import describe, plain_json, rank, recommendation, trial_json, trial_key
from marina.plan.evaluation.bounds import latency_alone
from marina.plan.evaluation.evaluate import HOURS_A_MONTH, Deployment, Prediction, evaluate
from marina.plan.evaluation.fleet import HOURS, Disruption, by_hour
from marina.plan.evaluation.limits import Reach
from marina.plan.evaluation.search import FINE_REQUESTS, Evaluation, SearchResult
from marina.plan.options.candidates import Candidate, candidates_of
from marina.plan.simulator.uncertainty import COVERAGE
from marina.plan.workload import Traffic, Workload

BUSY = 0.7  # of the workers' time: above it, waiting for other requests is most of a tail
MAX_ROWS = 12  # of the table
SCALE_AT = 0.7  # of the calls that an instance can take, so that there is time to start another


@dataclass(frozen=True)
class Recommendation:
    """What to deploy.

    Attributes:
        workload: the requested workload.
        traffic: of each model.
        result: of the search.
        reach: of the choice; None if there is no choice.
        mini_batch: the most texts of a request within the seconds of `workload`'s clients, by model.
        change: a sentence about the first change to make.
        instance_loss, upgrade: the choice while an instance is lost, and while the instances are upgraded; None if it
            has one instance.
        notes: sentences about calibrations that are less certain than they were.
    """

    workload: Workload
    traffic: list[Traffic]
    result: SearchResult
    reach: Reach | None
    mini_batch: dict[str, int]
    change: str
    instance_loss: Disruption | None = None
    upgrade: Disruption | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer in a sentence."""
        promise, best, nearest = self.workload.promise, self.result.best, self.result.nearest
        if best is None:
            percentile = f"a p{promise.percentile:g} of {'' if promise.confidence is None else 'up to '}"
            if self.result.light_load_ms is not None:
                best_ms = number(self.result.light_load_ms)
                return f"No number of machines keeps {promise}: hardly loaded, the best has {percentile}{best_ms} ms."
            if nearest is None and self.result.over_budget:
                cheapest = number(self.result.over_budget)
                return f"None keeps {promise} within the budget: the cheapest costs {cheapest} USD a month."
            if nearest is None:
                return f"None keeps {promise}: even alone and on an idle server a request takes longer."
            nearest_ms = number(nearest.figures.sure)
            return f"None keeps {promise}; the nearest is {describe(nearest)}, with {percentile}{nearest_ms} ms."
        figures = best.figures
        price = "" if figures.usd_month is None else f", {number(figures.usd_month)} USD a month"
        brackets = f" ({_between(*figures.ranges['promised'])})" if figures.ranges else ""
        return (
            f"{describe(best)} keeps {promise} at {number(total_rate(self.traffic))} requests per second: "
            f"p{promise.percentile:g} {number(figures.promised)} ms{brackets}, "
            f"{figures.utilisation:.0%} busy{price}."
        )

    @property
    def binds(self) -> str:
        """The bottleneck of the choice, or of the nearest candidate."""
        trial = self.result.best or self.result.nearest
        if trial is None or self.result.light_load_ms is not None:
            return "The time of one request alone binds: shorter texts, smaller shapes or a faster engine would help."
        promise, candidate = self.workload.promise, trial.candidate
        alone_ms = latency_alone(candidate, self.traffic, promise.percentile)
        if alone_ms > promise.latency_ms / 2:
            return f"The time of one request alone binds: {number(alone_ms)} of {promise.latency_ms:g} ms."
        if candidate.delay_ms > promise.latency_ms / 4:
            return f"The batch delay binds: {candidate.delay_ms} of {promise.latency_ms:g} ms."
        if trial.figures.answered < promise.answered:
            return f"The queue binds: {1 - trial.figures.answered:.1%} of the requests find it full."
        if trial.figures.utilisation > BUSY:
            return f"The workers bind: they are busy for {trial.figures.utilisation:.0%} of the time."
        if trial.figures.count == 1:
            return "Nothing binds: one machine has room in every part."
        return "Nothing binds: every part has room; with one machine less, the promise would be broken."

    def lines(self) -> list[str]:
        """Further sentences: the bottleneck, the first change to make, and Darwinbox's three questions."""
        lines = [*self.notes, self.binds, *([self.change] if self.change else [])]
        best, reach = self.result.best, self.reach
        if best and reach:
            lines.insert(0, self._range_line(best))
            for name, max_texts in self.mini_batch.items():
                lines.append(
                    f"Mini-batches: at most {max_texts} texts of {name} in a request through Lambda, by bytes and "
                    "seconds."
                )
            lines.append(
                f"Concurrent calls: {number(reach.per_minute)} a minute for an instance, and {number(reach.under_way)} "
                f"at the same time in all; the promise holds up to {number(reach.rate)} requests per second."
            )
            calls = number(reach.per_minute * SCALE_AT)
            lines.append(f"Machines: {best.figures.count}. Add one when each gets more than {calls} calls a minute.")
            lines += [line for line in (self._by_hour_line(best), self._disruption_line()) if line]
        lines.append(
            f"{self.result.candidates} candidates: {self.result.pruned} left out by bounds, "
            f"{len({id(trial.candidate) for trial in self.result.trials})} simulated."
        )
        return lines

    def _range_line(self, best: Evaluation) -> str:
        promise, ranges = self.workload.promise, best.figures.ranges
        line = f"The range in brackets should hold {COVERAGE:.0%} of repeated measurements."
        if promise.confidence is None and ranges and ranges["promised"][1] > promise.latency_ms:
            line += " A part of that range breaks the promise; a confidence of 0.95 plans for its upper end."
        return line

    def by_hour(self) -> list[int]:
        """The smallest number of instances at each hour of the day; empty without a curve or a choice."""
        best, reach = self.result.best, self.reach
        return by_hour(self.workload, total_rate(self.traffic), reach, best.figures.count) if best and reach else []

    def _by_hour_line(self, best: Evaluation) -> str:
        counts, price = self.by_hour(), best.candidate.place.per_hour
        if not counts or max(counts) == min(counts):
            return ""
        month = "" if price is None else f" That is {number(sum(counts) / HOURS * price * HOURS_A_MONTH)} USD a month."
        return f"By the hour: {min(counts)} to {max(counts)} machines keep the promise, if they follow the rate.{month}"

    def _disruption_line(self) -> str:
        if not (self.instance_loss and self.upgrade):
            return "If the only machine is lost, nothing answers until another one starts; --one-down plans for that."
        if not (math.isfinite(self.instance_loss.latency_ms) and math.isfinite(self.upgrade.latency_ms)):
            return ""  # no request came meanwhile
        percentile = f"p{self.workload.promise.percentile:g}"
        return (
            f"While one machine is lost: {percentile} {number(self.instance_loss.latency_ms)} ms, and its "
            f"{self.instance_loss.lost} requests under way are lost. While all are upgraded one by one: {percentile} "
            f"{number(self.upgrade.latency_ms)} ms, {self.upgrade.lost or 'none'} lost."
        )

    def as_json(self) -> dict[str, Any]:
        """For programs: our names, with the names of SageMaker Inference Recommender beside them."""
        best, nearest = self.result.best, self.result.nearest
        return {
            "answer": self.sentence,
            "binds": self.binds,
            "change_first": self.change,
            "notes": self.notes,
            "choice": trial_json(best) if best else None,
            "nearest": None if best or nearest is None else trial_json(nearest),
            "light_load_ms": plain_json(self.result.light_load_ms),
            "max_requests_per_second": None if self.reach is None else round(self.reach.rate, 1),
            "max_under_way": None if self.reach is None else round(self.reach.under_way, 1),
            "mini_batch": self.mini_batch,
            "by_hour": self.by_hour(),
            "while_one_is_lost": _disruption_json(self.instance_loss),
            "while_upgraded": _disruption_json(self.upgrade),
            "InferenceRecommendations": [recommendation(best, self.reach)] if best and self.reach else [],
            "candidates": self.result.candidates,
            "left_out_by_bounds": self.result.pruned,
            "simulated": [trial_json(trial) for trial in self.result.trials[-200:]],
        }

    def rows(self) -> list[list[str]]:
        """The choice, the best of every other place, and the next best candidates; of equal figures, one candidate."""
        latest = {trial_key(trial): trial for trial in self.result.trials}
        ordered = sorted(
            latest.values(), key=lambda trial: (not trial.figures.keeps(self.workload.promise), rank(trial))
        )
        if self.result.best:
            ordered = [self.result.best, *ordered]
        by_figures = {
            (trial.candidate.place.name, trial.figures.count, round(trial.figures.p99, 2)): trial
            for trial in ordered[::-1]
        }
        distinct = [trial for trial in ordered if any(trial is other for other in by_figures.values())]
        best_of_places = list({trial.candidate.place.name: trial for trial in distinct[::-1]}.values())
        selected = [
            trial
            for position, trial in enumerate(distinct)
            if trial in best_of_places or position < MAX_ROWS - len(best_of_places)
        ]
        rows = []
        for trial in selected:
            figures = trial.figures
            keeps = "yes" if figures.keeps(self.workload.promise) else "no"
            latencies = map(number, (figures.p50, figures.p95, figures.p99))
            shares = [f"{share:.0%}" for share in (figures.utilisation, figures.padding)]
            costs = ["" if usd is None else number(usd) for usd in (figures.usd_month, figures.usd_1m)]
            rows.append([describe(trial), keeps, *latencies, *shares, f"{figures.megabytes:.0f}", *costs])
        return rows


def _between(low: float, high: float) -> str:
    """A range; it has no end if too few requests are answered at its upper end."""
    return f"{number(low)} to {number(high)}" if math.isfinite(high) else f"{number(low)} or more"


def _disruption_json(disruption: Disruption | None) -> dict[str, Any] | None:
    return {name: plain_json(value) for name, value in disruption._asdict().items()} if disruption else None


COLUMNS = ["", "keeps", "p50 ms", "p95", "p99", "busy", "padding", "MB", "USD a month", "per 1M"]


def total_rate(traffic: Sequence[Traffic]) -> float:
    """Requests per second of all models."""
    return sum(model_traffic.rate for model_traffic in traffic)


def first_change(best: Evaluation, traffic: Sequence[Traffic], workload: Workload) -> str:
    """What lowers the promised percentile most: one instance more, or one setting of the choice changed."""
    least_loaded = workload.balancer == "least"
    current_ms = best.figures.promised

    def predict(candidate: Candidate, count: int) -> Prediction:
        return evaluate(Deployment(candidate, count, traffic, workload.promise, least_loaded), FINE_REQUESTS // 3)

    options: list[tuple[float, str]] = [(predict(best.candidate, best.figures.count + 1).promised, "one more instance")]
    for other in candidates_of(best.candidate.place):
        same_serving = replace(other, groups=best.candidate.groups, variants=best.candidate.variants) == best.candidate
        if same_serving and other.variants == best.candidate.variants and other.groups != best.candidate.groups:
            groups = ",".join(map(str, other.groups[0]))
            options.append((predict(other, best.figures.count).promised, f"core groups {groups}"))
        if same_serving and other.groups == best.candidate.groups and other.variants != best.candidate.variants:
            variant = other.variants[0]
            change = f"{variant.engine} {variant.precision} with {len(variant.shapes)} graphs"
            options.append((predict(other, best.figures.count).promised, change))
    best_ms, change = min(options)
    percentile = f"p{workload.promise.percentile:g}"
    if best_ms >= current_ms * 0.98:
        return f"No single change lowers the {percentile} by more than 2 %."
    return f"To lower the {percentile} of {number(current_ms)} ms first: {change}, which gives {number(best_ms)} ms."
