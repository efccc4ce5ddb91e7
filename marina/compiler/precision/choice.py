"""Chooses the precision of a model: the spec's, or else the fastest precision that preserves its answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from marina.compiler.tasks.base import Agreement
from marina.engines import engine_of
from marina.errors import CompileError
from marina.spec import Spec

DIGITS = 4  # decimals of recorded agreements; later ones depend on the processor


# why a precision was chosen, as recorded in artifact.json
BY_SPEC = "spec"  # the spec leaves no choice
BY_ANSWERS = "answers"  # no other precision preserves answers
BY_SPEED = "speed"  # faster than every smaller precision that preserves answers, by more than the noise
BY_SIZE = "size"  # the smallest that preserves answers; no larger one is faster by more than the noise


class PrecisionTrial(NamedTuple):
    """The results for one precision: agreement of answers and, if it was timed, milliseconds of one call.

    f32 has no agreement: its graphs are checked with a tolerance instead. rounds of all precisions are interleaved.
    """

    precision: str
    agreement: Agreement | None
    rounds: tuple[float, ...] = ()

    def passes(self, spec: Spec) -> bool:
        """Whether the agreement is high enough for the spec."""
        return self.agreement is None or self.agreement.value >= _min_agreement(self.agreement, spec)

    def entry(self, spec: Spec) -> dict[str, object]:
        """Its entry in `artifact.json`, which holds no times."""
        if self.agreement is None:
            return {"precision": self.precision, "passed": True}
        value = math.floor(self.agreement.value * 10**DIGITS) / 10**DIGITS
        return {
            "precision": self.precision,
            "passed": self.passes(spec),
            "measure": self.agreement.measure,
            "value": value,
            "texts": self.agreement.texts,
            "least": _min_agreement(self.agreement, spec),
            "of": spec.examples or "built-in texts",
        }


class PrecisionChoice(NamedTuple):
    """The chosen precision, the reason, and the trials.

    noise is the largest relative variation between rounds, in the comparisons that decided; 0 if no
    larger precision was faster.
    """

    precision: str
    decided: str
    trials: tuple[PrecisionTrial, ...] = ()
    noise: float = 0.0


def choose(
    spec: Spec,
    precisions: Sequence[str],
    attempt: Callable[[str], PrecisionTrial],
    time: Callable[[Sequence[str]], Mapping[str, tuple[float, ...]]],
) -> PrecisionChoice:
    """Choose the precision to compile in.

    Args:
        spec: the model's spec.
        precisions: the precisions to try, smallest first.
        attempt: judges one precision by its answers.
        time: milliseconds of one call in each of several precisions, in interleaved rounds.

    Raises:
        CompileError: no precision that the spec allows preserves answers.
    """
    if tuple(precisions) == ("f32",):
        return PrecisionChoice("f32", BY_SPEC)
    judged_trials = [attempt(name) for name in precisions]
    if not any(trial.passes(spec) for trial in judged_trials):
        raise changes_answers(judged_trials[0], spec)
    times = time(precisions)
    timed_trials = tuple(trial._replace(rounds=times[trial.precision]) for trial in judged_trials)
    passing_trials = [trial for trial in timed_trials if trial.passes(spec)]
    if len(passing_trials) == 1:
        return PrecisionChoice(
            passing_trials[0].precision, BY_SPEC if len(precisions) == 1 else BY_ANSWERS, timed_trials
        )
    best, decided, noise = passing_trials[0], BY_SIZE, 0.0
    for index, trial in enumerate(passing_trials[1:], 1):  # from the smallest on
        gains = [compare(trial.rounds, smaller.rounds) for smaller in passing_trials[:index]]
        if all(gain > variation for gain, variation in gains):
            best, decided, noise = trial, BY_SPEED, max(variation for _, variation in gains)
        elif decided == BY_SIZE:
            noise = max([noise, *(variation for gain, variation in gains if gain > 0)])
    return PrecisionChoice(best.precision, decided, timed_trials, noise)


def compare(rounds: Sequence[float], other_rounds: Sequence[float]) -> tuple[float, float]:
    """The fraction by which one graph is faster than another, and the variation of that fraction between rounds.

    Each round is compared with the other graph's round of the same time, so slowdowns that affect both cancel out.
    The second number is half of the range of the first over all rounds. With five or more rounds, the highest and the
    lowest are excluded, because something else can always interrupt one round.
    """
    ratios = sorted(
        milliseconds / other_milliseconds for milliseconds, other_milliseconds in zip(rounds, other_rounds, strict=True)
    )
    inner_ratios = ratios[1:-1] if len(ratios) >= 5 else ratios
    return 1 - statistics.median(ratios), (inner_ratios[-1] - inner_ratios[0]) / 2


def changes_answers(trial: PrecisionTrial, spec: Spec) -> CompileError:
    """The error for a precision that does not pass."""
    agreement = trial.agreement
    assert agreement is not None  # f32 always passes
    return CompileError(
        f"{spec.name}: {trial.precision} changes answers: {agreement.measure} {agreement.value:.4f} on "
        f"{agreement.texts} held-out texts, at least {_min_agreement(agreement, spec)} is required; use "
        f"{engine_of(spec.engine).more_exact}, give more examples, or lower parity.{agreement.threshold} if that is "
        "acceptable"
    )


def _min_agreement(agreement: Agreement, spec: Spec) -> float:
    return float(getattr(spec.parity, agreement.threshold))
