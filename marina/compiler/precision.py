"""Settles the precision of a model: the one that the spec names, or of those that keep its answers the fastest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from handlers.worker.placement import NEURON_ENGINES
from marina.compiler.agreement import Agreement
from marina.compiler.examples import Examples
from marina.compiler.mitigations import MORE_EXACT
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
        agreement = {**self.agreement._asdict(), "value": value, "least": _least(self.agreement, spec)}
        return {
            "precision": self.precision,
            "passed": self.passes(spec),
            **agreement,
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


def candidates(spec: Spec, examples: Examples) -> tuple[str, ...]:
    """The precisions that a spec lets be tried."""
    if spec.engine in NEURON_ENGINES:
        return (precision_of(spec, ()),)
    if spec.precision != "auto":
        return (spec.precision,)
    if spec.engine != "openvino":
        return ("f32",)
    return ("int8", "bf16", "f32") if examples.calibration else ("bf16", "f32")


def precision_of(spec: Spec, mitigations: Sequence[str]) -> str:
    """The precision that a spec names, f32 for auto; on Neuron engines that of its options, with the remedies taken."""
    if spec.engine == "neuron":
        return "bf16" if MORE_EXACT in mitigations else spec.neuron.precision
    if spec.engine == "neuronx":
        return "f32" if MORE_EXACT in mitigations else spec.neuronx.precision
    return "f32" if spec.precision == "auto" else spec.precision


def choose(
    spec: Spec,
    examples: Examples,
    attempt: Callable[[str], Trial],
    time: Callable[[Sequence[str]], Mapping[str, tuple[float, ...]]],
) -> Choice:
    """The precision to compile in.

    Args:
        spec: the model's.
        examples: its texts.
        attempt: judges one precision by its answers.
        time: milliseconds of one call in each of several precisions, in rounds that take turns.

    Raises:
        CompileError: the only precision that the spec lets be tried changes answers.
    """
    names = candidates(spec, examples)
    if names == ("f32",):
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
        found = [compare(trial.rounds, smaller.rounds) for smaller in passing[:place]]
        if all(gain > moved for gain, moved in found):
            kept, decided, noise = trial, SPEED, max(moved for _, moved in found)
        elif decided == SIZE:
            noise = max([noise, *(moved for gain, moved in found if gain > 0)])
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
    found = trial.agreement
    assert found is not None  # f32 always passes
    field = "cosine" if "cosine" in found.measure else "agreement"
    exact = {"neuron": "neuron.fast_math: none", "neuronx": "neuronx.auto_cast: none"}
    return CompileError(
        f"{spec.name}: {trial.precision} changes answers: {found.measure} {found.value:.4f} on {found.texts} "
        f"held-out texts, at least {_least(found, spec)} is asked for; use "
        f"{exact.get(spec.engine, 'precision: auto')}, give more examples, or lower parity.{field} if that is "
        "acceptable"
    )


def _least(agreement: Agreement, spec: Spec) -> float:
    return spec.parity.cosine if "cosine" in agreement.measure else spec.parity.agreement
