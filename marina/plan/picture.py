"""A picture of a plan: cost against the promised latency, and the frontier of what cannot be beaten in both."""

from __future__ import annotations

from marina.bench.report.drawing import COLOURS, legend, new_figure, png_of
from marina.plan.answer import Recommendation, rank


def picture(answer: Recommendation) -> bytes:
    """A PNG."""
    promise = answer.workload.promise
    trials = [trial for trial in answer.result.trials if trial.figures.promised < 100 * promise.latency_ms]
    priced = all(trial.figures.usd_month is not None for trial in trials)
    with new_figure(size=(8, 4.8)) as (figure, (axis,)):
        for index, name in enumerate(dict.fromkeys(trial.candidate.place.name for trial in trials)):
            place_trials = [trial for trial in trials if trial.candidate.place.name == name]
            basis = place_trials[0].candidate.basis
            label = f"{name} ({basis})" if basis else name
            latencies, costs = (
                [trial.figures.promised for trial in place_trials],
                [rank(trial)[0] for trial in place_trials],
            )
            axis.scatter(latencies, costs, s=14, color=COLOURS[index % len(COLOURS)], alpha=0.5, label=label)
        frontier, lowest = [], float("inf")
        for trial in sorted(trials, key=rank):
            if trial.figures.promised < lowest:
                lowest = trial.figures.promised
                frontier.append(trial)
        axis.step(
            [trial.figures.promised for trial in frontier],
            [rank(trial)[0] for trial in frontier],
            where="post",
            color="#444444",
            linewidth=1,
            label="cannot be beaten in both",
        )
        axis.axvline(promise.latency_ms, color="#b85450", linestyle="--", linewidth=1, label=str(promise))
        best = answer.result.best
        if best:
            axis.scatter(
                [best.figures.promised], [rank(best)[0]], s=90, facecolors="none", edgecolors="#b85450", linewidths=2
            )
        if trials:
            axis.set_xscale("log")
        axis.set(xlabel=f"p{promise.percentile:g}, ms", ylabel="USD a month" if priced else "instances")
        axis.margins(y=0.1)
        axis.set_ylim(bottom=0)
        legend(axis)
        return png_of(figure)
