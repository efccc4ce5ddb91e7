"""Chooses the precision of a model: the one in the spec, or else the fastest of those that preserve its answers."""

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


# why a precision was kept, as recorded in artifact.json
ASKED = "spec"  # the spec leaves no choice
ANSWERS = "answers"  # no other precision preserves them
SPEED = "speed"  # faster than every smaller precision that preserves answers, by more than the noise
SIZE = "size"  # the smallest that preserves answers; no larger one is faster by more than the noise


class PrecisionTrial(NamedTuple):
    """The results for one precision: agreement of answers and, if it was timed, milliseconds of one call.

    f32 has no agreement: its graphs are checked with a tolerance instead. rounds of all precisions are interleaved.
    """

    precision: str
    agreement: Agreement | None
    rounds: tuple[float, ...] = ()

    def passes(self, spec: Spec) -> bool:
        """Whether the agreement is high enough for the spec."""
        return self.agreement is None or self.agreement.value >= _least(self.agreement, spec)

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
            "least": _least(self.agreement, spec),
            "of": spec.examples or "built-in texts",
        }


class PrecisionChoice(NamedTuple):
    """The precision that is kept, the reason, and the trials.

    noise is the largest relative variation between rounds, in the comparisons that decided; 0 if no
    larger precision was faster.
    """

    precision: str
    decided: str
    trials: tuple[PrecisionTrial, ...] = ()
    noise: float = 0.0


def choose(
    spec: Spec,
    names: Sequence[str],
    attempt: Callable[[str], PrecisionTrial],
    time: Callable[[Sequence[str]], Mapping[str, tuple[float, ...]]],
) -> PrecisionChoice:
    """Choose the precision to compile in.

    Args:
        spec: the model's spec.
        names: the precisions to try, smallest first.
        attempt: judges one precision by its answers.
        time: milliseconds of one call in each of several precisions, in interleaved rounds.

    Raises:
        CompileError: no precision that the spec allows preserves answers.
    """
    if tuple(names) == ("f32",):
        return PrecisionChoice("f32", ASKED)
    judged = [attempt(name) for name in names]
    if not any(trial.passes(spec) for trial in judged):
        raise changes_answers(judged[0], spec)
    times = time(names)
    trials = tuple(trial._replace(rounds=times[trial.precision]) for trial in judged)
    passing = [trial for trial in trials if trial.passes(spec)]
    if len(passing) == 1:
        return PrecisionChoice(passing[0].precision, ASKED if len(names) == 1 else ANSWERS, trials)
    kept, decided, noise = passing[0], SIZE, 0.0
    for place, trial in enumerate(passing[1:], 1):  # from the smallest on
        gains = [compare(trial.rounds, smaller.rounds) for smaller in passing[:place]]
        if all(gain > moved for gain, moved in gains):
            kept, decided, noise = trial, SPEED, max(moved for _, moved in gains)
        elif decided == SIZE:
            noise = max([noise, *(moved for gain, moved in gains if gain > 0)])
    return PrecisionChoice(kept.precision, decided, trials, noise)


def compare(rounds: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The fraction by which one graph is faster than another, and the variation of that fraction between rounds.

    Each round is compared with the other graph's round of the same time, so slowdowns that affect both cancel out.
    The second number is half of the range of the first over all rounds. With five or more rounds, the highest and the
    lowest are excluded, because something else can always interrupt one round.
    """
    ratios = sorted(own / other for own, other in zip(rounds, others, strict=True))
    usual = ratios[1:-1] if len(ratios) >= 5 else ratios
    return 1 - statistics.median(ratios), (usual[-1] - usual[0]) / 2


def changes_answers(trial: PrecisionTrial, spec: Spec) -> CompileError:
    """The error for a precision that does not pass."""
    agreement = trial.agreement
    assert agreement is not None  # f32 always passes
    return CompileError(
        f"{spec.name}: {trial.precision} changes answers: {agreement.measure} {agreement.value:.4f} on "
        f"{agreement.texts} held-out texts, at least {_least(agreement, spec)} is required; use "
        f"{engine_of(spec.engine).more_exact}, give more examples, or lower parity.{agreement.threshold} if that is "
        "acceptable"
    )


def _least(agreement: Agreement, spec: Spec) -> float:
    return float(getattr(spec.parity, agreement.threshold))
