"""Settles the precision of a model: the one that the spec names, or the fastest that keeps its answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from handlers.worker.placement import NEURON_ENGINES
from marina.compiler.agreement import Agreement
from marina.compiler.examples import Examples
from marina.compiler.mitigations import MORE_EXACT
from marina.errors import CompileError
from marina.spec import Spec

DIGITS = 4  # of agreements on file; later ones depend on the processor


class Trial(NamedTuple):
    """What was seen of one precision: milliseconds of one call, and how alike answers are.

    f32 has no agreement: its graphs are held to a tolerance instead.
    """

    precision: str
    milliseconds: float
    agreement: Agreement | None

    def passes(self, spec: Spec) -> bool:
        """Whether answers are alike enough for the spec."""
        return self.agreement is None or self.agreement.value >= _least(self.agreement, spec)

    def entry(self, spec: Spec) -> dict[str, object]:
        """Its entry in `artifact.json`, which holds no times."""
        if self.agreement is None:
            return {"precision": self.precision, "passed": True}
        value = math.floor(self.agreement.value * 10**DIGITS) / 10**DIGITS
        agreement = {**self.agreement._asdict(), "value": value, "least": _least(self.agreement, spec)}
        return {"precision": self.precision, "passed": self.passes(spec), **agreement}


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


def choose(spec: Spec, examples: Examples, attempt: Callable[[str], Trial]) -> tuple[str, list[Trial]]:
    """The precision to compile in, and what was tried to find it.

    Args:
        spec: the model's.
        examples: its texts.
        attempt: tries one precision.

    Raises:
        CompileError: the only precision that the spec lets be tried changes answers.
    """
    names = candidates(spec, examples)
    if names == ("f32",):
        return "f32", []
    trials = [attempt(name) for name in names]
    passing = [trial for trial in trials if trial.passes(spec)]
    if not passing:
        raise changes_answers(trials[0], spec)
    return min(passing, key=lambda trial: trial.milliseconds).precision, trials


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
