"""The operators that AWS lists for Inf1, and those of a traced model.

Source: neuron-cc-ops-pytorch.rst in the release notes of the AWS Neuron SDK, read 2026-08-21; its newest entry is of
2023-08-28. An operator that is not in the list is doubtful: torch.neuron.get_supported_operations() on a machine with
the SDK decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".tsv")


@cache
def listed_operators() -> frozenset[str]:
    """The names of the operators in AWS's list, for example "aten::addmm"."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("\t")[0] for line in lines if line and not line.startswith("#"))


def operators_of(module: Any) -> Counter[str]:
    """How often each operator occurs in a TorchScript module; a part that is compiled for Neuron counts as none."""
    return Counter(kind for node in module.inlined_graph.nodes() for kind in _kinds(node))


def doubtful(operators: Mapping[str, int]) -> dict[str, int]:
    """The operators that AWS does not list."""
    return {name: count for name, count in sorted(operators.items()) if name not in listed_operators()}


def describe_operators(operators: Mapping[str, int]) -> str:
    """Operators and how often each occurs, in words."""
    return ", ".join(f"{count} x {name}" for name, count in sorted(operators.items()))


def _kinds(node: Any) -> Iterator[str]:
    if node.kind().startswith("aten::"):
        yield node.kind()
    for block in node.blocks():
        for child in block.nodes():
            yield from _kinds(child)
