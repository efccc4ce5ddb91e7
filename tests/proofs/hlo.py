"""Reads the text of a lowered graph (HLO), and holds it against what AWS documents about neuronx-cc.

Sources: neuronx-cc's error codes (compiler/error-codes of aws-neuron-sdk), and the data types of NeuronCores
(about-neuron/arch/neuron-features/data-types.rst). AWS publishes no list of the operators that neuronx-cc compiles:
`neuronx-cc list-operators --framework XLA` prints it where the package is. XLA leaves the numbers of long constants out
of the text, so those are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

INSTRUCTION = re.compile(
    r"^ *(?:ROOT )?%?[\w.-]+ = (?P<result>\(.*?\)|\S+) (?P<operator>[\w-]+)\((?P<operands>.*)$", re.M
)
TYPE = re.compile(r"\b(pred|bf16|[suf]\d+\w*|c\d+)\[")
WIDE = ("s64", "u64")
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", *WIDE, "pred")
# 64-bit integers become 32-bit integers (ESFH002 where that loses a value)
TYPES = ("f32", "f16", "bf16", "f8e5m2", "f8e4m3", "f8e3m4", "u8", "s32", "u32", "s64", "u64", "pred")
CALL_TARGETS = (
    *("AwsNeuronErf", "AwsNeuronGelu", "AwsNeuronGeluApprxTanh", "AwsNeuronSilu", "AwsNeuronRmsNorm"),
    *("AwsNeuronSoftmax", "AwsNeuronArgMax", "AwsNeuronArgMin", "AwsNeuronTopK", "ResizeNearest", "ResizeBilinear"),
)


Limit = Callable[[tuple[str, ...], str], str | None]  # of the types of operands, and of an instruction's text


class Instruction(NamedTuple):
    """One instruction: its operator, the types of its result and of its operands, and its text from the operands on."""

    operator: str
    result: tuple[str, ...]
    operands: tuple[str, ...]
    text: str


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of all computations of a graph."""
    for match in INSTRUCTION.finditer(text):
        rest = match["operands"]
        yield Instruction(
            match["operator"],
            tuple(TYPE.findall(match["result"])),
            tuple(TYPE.findall(rest.partition("), ")[0])),
            rest,
        )


def operators(text: str) -> set[str]:
    """The operators of a graph."""
    return {instruction.operator for instruction in instructions(text)}


def limits(text: str) -> list[str]:
    """The error codes that AWS documents for what a graph contains, each with the reason, sorted."""
    found = set()
    if "<=" in text:
        found.add("EMOD025: a dimension is dynamic")
    for instruction in instructions(text):
        found |= set(_limits(instruction))
    return sorted(found)


def _limits(instruction: Instruction) -> Iterator[str]:
    """The limits of types and calls, and those of the operator."""
    operator, result, operands, text = instruction
    for name in {*result, *operands} - set(TYPES):
        yield f"{'EVRF004' if name.startswith('c') else 'ESPP004'}: {name}"
    if operator == "custom-call":
        target = re.search(r'custom_call_target="([^"]*)"', text)
        if target is None or target[1] not in CALL_TARGETS:
            yield f"EHCA005: {target[1] if target else 'a call without a name'}"
    if operator == "constant" and result[0] in WIDE:
        numbers = [int(number) for number in re.findall(r"-?\d+", text.partition(")")[0])]
        if any(not -(2**31) <= number < 2**32 for number in numbers):
            yield "ESFH002: a constant with more than 32 bits"
    refused = LIMITS.get(operator)
    limit = refused(operands, text) if refused else None
    if limit:
        yield limit


def _window(operands: tuple[str, ...], text: str) -> str | None:
    if len(operands) != 2:
        return f"EVRF019: reduce-window of {len(operands)} operands"
    return "EVRF017, EVRF018: reduce-window with dilation" if re.search(r"(lhs|rhs)_dilate=", text) else None


def _convolution(_: tuple[str, ...], text: str) -> str | None:
    dilated = "lhs_dilate=" in text and re.search(r"rhs_dilate=|stride=", text)
    return "EVRF010, EVRF011: convolution with a dilated input" if dilated else None


def _of_types(words: str, types: tuple[str, ...]) -> Limit:
    """A limit of operators whose first operand has one of these types."""
    return lambda operands, _: f"{words} {operands[0]}" if operands[0] in types else None


LIMITS: dict[str, Limit] = {
    "triangular-solve": lambda *_: "EVRF001: triangular-solve",
    "rng-bit-generator": lambda _, text: None if "algorithm=rng_default" in text else "EVRF006: a chosen algorithm",
    "dot": _of_types("EVRF035: a product of", INTEGERS),
    "scatter": _of_types("EVRF016, EVRF060: scatter of", INTEGERS),
    "power": _of_types("EVRF062: power of", WIDE),
    "shift-right-arithmetic": _of_types("EVRF022: shift of", tuple({*TYPES} - {"s32", "u32", "f32"})),
    "sort": _of_types("EVRF013: order of", INTEGERS),
    "topk": _of_types("EVRF013: order of", INTEGERS),
    "reduce-window": _window,
    "convolution": _convolution,
}
