"""The rules of a task for the outputs of a TorchScript module, and its names for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from handlers.worker.archive.signature import Head
from handlers.worker.values import Json
from marina.errors import SourceError
from marina.spec import Spec
from marina.spec.sections import OutputSpec

ONE_HEAD = "logits"  # the name of the output of a model with one head


class OutputRule(NamedTuple):
    """The outputs that a task can use.

    Attributes:
        names: the task's names for them; empty if they keep the names in the spec.
        dims: the number of dimensions of each, with the batch; None for any.
        labels: whether the spec names the labels of each.
        score: whether each is a single value with an activation.
        per_token: whether they have a value per token.
        check_labels: returns why the labels of an output do not suit the task; None if they do.
    """

    names: tuple[str, ...] = ()
    dims: int | None = 2
    labels: bool = False
    score: bool = False
    per_token: bool = False
    check_labels: Callable[[Sequence[Json]], str | None] = lambda _: None


def outputs_of(spec: Spec, rule: OutputRule) -> Mapping[str, OutputSpec]:
    """The outputs of a spec in order; SourceError if they do not suit its task."""
    outputs = spec.outputs or {}
    count = len(rule.names) or len(outputs)
    if len(outputs) != count:
        raise SourceError(f"{spec.name}: the task {spec.task} has {count} outputs, and outputs names {len(outputs)}")
    for name, output in outputs.items():
        if rule.labels != bool(output.labels):
            verb = "needs" if rule.labels else "has no"
            raise SourceError(f"{spec.name}: outputs.{name}: the task {spec.task} {verb} labels")
        reason = rule.check_labels(output.labels or ())
        if reason:
            raise SourceError(f"{spec.name}: outputs.{name}: {reason}")
    return outputs


def names_of(spec: Spec, rule: OutputRule) -> tuple[str, ...]:
    """The outputs as the task names them."""
    outputs = outputs_of(spec, rule)
    return rule.names or ((ONE_HEAD,) if rule.labels and len(outputs) == 1 else tuple(outputs))


def heads_of(spec: Spec, rule: OutputRule) -> dict[str, Head]:
    """The labels and the activation of each output that has them."""
    outputs = zip(names_of(spec, rule), outputs_of(spec, rule).values(), strict=True)
    labels = ("score",) if rule.score else ()
    return {
        name: Head(output.labels or labels, output.activation) for name, output in outputs if output.labels or labels
    }
