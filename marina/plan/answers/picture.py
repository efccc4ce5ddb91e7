"""A picture of a plan: cost against the promised latency, and the frontier of what cannot be beaten in both."""

from __future__ import annotations

from marina.drawing import COLOURS, INK, LIMIT, legend, new_figure, plain_numbers, svg_of
from marina.plan.answers.answer import Recommendation
from marina.plan.answers.trials import rank


def picture(answer: Recommendation) -> bytes:
    """An SVG."""
    promise = answer.workload.promise
    trials = [trial for trial in answer.result.trials if trial.figures.sure < 100 * promise.latency_ms]
    priced = all(trial.figures.usd_month is not None for trial in trials)
    with new_figure(size=(8, 4.8)) as (figure, (axis,)):
        for index, name in enumerate(dict.fromkeys(trial.candidate.place.name for trial in trials)):
            place_trials = [trial for trial in trials if trial.candidate.place.name == name]
            basis = place_trials[0].candidate.basis
            label = f"{name} ({basis})" if basis else name
            latencies, costs = (
                [trial.figures.sure for trial in place_trials],
                [rank(trial)[0] for trial in place_trials],
            )
            axis.scatter(latencies, costs, s=14, color=COLOURS[index % len(COLOURS)], alpha=0.5, label=label)
        frontier, lowest = [], float("inf")
        for trial in sorted(trials, key=rank):
            if trial.figures.sure < lowest:
                lowest = trial.figures.sure
                frontier.append(trial)
        if len({rank(trial)[0] for trial in frontier}) > 1:
            axis.step(
                [trial.figures.sure for trial in frontier],
                [rank(trial)[0] for trial in frontier],
                where="post",
                color=INK,
                linewidth=1,
                label="cannot be beaten in both",
            )
        axis.axvline(promise.latency_ms, color=LIMIT, linestyle="--", linewidth=1, label=str(promise))
        best = answer.result.best
        if best:
            point = best.figures.sure, rank(best)[0]
            axis.scatter(*([value] for value in point), s=90, facecolors="none", edgecolors=LIMIT, linewidths=2)
            if best.figures.ranges:
                axis.plot(best.figures.ranges["promised"], [point[1]] * 2, color=LIMIT)
            axis.annotate(
                f"chosen: {best.figures.sure:.0f} ms",
                point,
                xytext=(0, 10),
                textcoords="offset points",
                ha="center",
            )
        if trials:
            axis.set_xscale("log")
            plain_numbers(axis.xaxis)
        axis.set(xlabel=f"p{promise.percentile:g}, ms", ylabel="USD a month" if priced else "instances")
        axis.margins(y=0.15)
        axis.set_ylim(bottom=0)
        if not priced:
            axis.yaxis.get_major_locator().set_params(integer=True)
        legend(axis)
        return svg_of(figure)
