"""Settles the precision of a model: the one that the spec names, or of those that keep its answers the fastest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from marina.compiler.tasks.base import Agreement
from marina.engines import engine_of
from marina.errors import CompileError
from marina.spec import Spec

DIGITS = 4  # of agreements on file; later ones depend on the processor


# why a precision was kept, as artifact.json says it
ASKED = "asked for"  # the spec leaves no choice
ANSWERS = "answers"  # no other keeps them
SPEED = "speed"  # faster than every smaller one that keeps answers, by more than the noise
SIZE = "size"  # the smallest of those that keep answers, and of no larger one that can be said


class Trial(NamedTuple):
    """What was seen of one precision: how alike answers are, and, where it was timed, milliseconds of one call.

    f32 has no agreement: its graphs are held to a tolerance instead. rounds are those of all precisions in turn.
    """

    precision: str
    agreement: Agreement | None
    rounds: tuple[float, ...] = ()

    def passes(self, spec: Spec) -> bool:
        """Whether answers are alike enough for the spec."""
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


class Choice(NamedTuple):
    """The precision that is kept, why, and what was tried to find it.

    noise is the largest share by which rounds moved against each other, in the comparisons that decided; 0 where no
    larger precision was faster.
    """

    precision: str
    decided: str
    trials: tuple[Trial, ...] = ()
    noise: float = 0.0


def choose(
    spec: Spec,
    names: Sequence[str],
    attempt: Callable[[str], Trial],
    time: Callable[[Sequence[str]], Mapping[str, tuple[float, ...]]],
) -> Choice:
    """The precision to compile in.

    Args:
        spec: the model's.
        names: of the precisions to try, the smallest first.
        attempt: judges one precision by its answers.
        time: milliseconds of one call in each of several precisions, in rounds that take turns.

    Raises:
        CompileError: the only precision that the spec lets be tried changes answers.
    """
    if tuple(names) == ("f32",):
        return Choice("f32", ASKED)
    judged = [attempt(name) for name in names]
    if not any(trial.passes(spec) for trial in judged):
        raise changes_answers(judged[0], spec)
    times = time(names)
    trials = tuple(trial._replace(rounds=times[trial.precision]) for trial in judged)
    passing = [trial for trial in trials if trial.passes(spec)]
    if len(passing) == 1:
        return Choice(passing[0].precision, ASKED if len(names) == 1 else ANSWERS, trials)
    kept, decided, noise = passing[0], SIZE, 0.0
    for place, trial in enumerate(passing[1:], 1):  # from the smallest on
        gains = [compare(trial.rounds, smaller.rounds) for smaller in passing[:place]]
        if all(gain > moved for gain, moved in gains):
            kept, decided, noise = trial, SPEED, max(moved for _, moved in gains)
        elif decided == SIZE:
            noise = max([noise, *(moved for gain, moved in gains if gain > 0)])
    return Choice(kept.precision, decided, trials, noise)


def compare(rounds: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """By what share one graph is faster than another, and by what share that moved from round to round.

    Each round is compared with the other graph's of the same time, so that what slows both down does not count.
    The second number is half of the range of the first over all rounds, of five or more without the highest and the
    lowest: one round can always be cut off by something else.
    """
    ratios = sorted(own / other for own, other in zip(rounds, others))
    usual = ratios[1:-1] if len(ratios) >= 5 else ratios
    return 1 - statistics.median(ratios), (usual[-1] - usual[0]) / 2


def changes_answers(trial: Trial, spec: Spec) -> CompileError:
    """What is said of a precision that does not pass."""
    agreement = trial.agreement
    assert agreement is not None  # f32 always passes
    return CompileError(
        f"{spec.name}: {trial.precision} changes answers: {agreement.measure} {agreement.value:.4f} on "
        f"{agreement.texts} held-out texts, at least {_least(agreement, spec)} is asked for; use "
        f"{engine_of(spec.engine).more_exact}, give more examples, or lower parity.{agreement.threshold} if that is "
        "acceptable"
    )


def _least(agreement: Agreement, spec: Spec) -> float:
    return float(getattr(spec.parity, agreement.threshold))
